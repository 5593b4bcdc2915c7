"""Made-up patients, and what a hospital writes about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files

import numpy as np
import yaml

DEVELOPMENT = "development"
FIRST_BIRTH = date(1925, 1, 1)
FIRST_STUDY = date(2019, 1, 1)


@dataclass(frozen=True)
class NameLists:
    """Where the parts of names come from.

    Attributes:
        forename: of persons.
        family: of persons.
        towns: of hospitals and addresses.
        hospitals: forms, with the fields forename, family and town.
    """

    forename: list[str]
    family: list[str]
    towns: list[str]
    hospitals: list[str]


@cache
def read_names(group: str = DEVELOPMENT) -> NameLists:
    """Return the lists of a group of names.yaml."""
    lists = yaml.safe_load((files(__package__) / "names.yaml").read_text())[group]
    words = {part: lists[part].split() for part in ("forename", "family", "towns")}
    return NameLists(**words, hospitals=lists["hospitals"])


@dataclass(frozen=True)
class Identity:
    """A patient with one study.

    Attributes:
        forename, family: the patient's name.
        sex: M or F.
        born, studied: days.
        record, accession: the hospital's numbers.
        hospital, town, street: where.
        physician, reader: two other persons, given name and family name.
        phone: of the patient.
    """

    forename: str
    family: str
    sex: str
    born: date
    studied: date
    record: str
    accession: str
    hospital: str
    town: str
    street: str
    physician: tuple[str, str]
    reader: tuple[str, str]
    phone: str

    @property
    def age(self) -> int:
        """The patient's years on the day of the study."""
        return (self.studied - self.born).days * 4 // 1461


def draw_identity(rng: np.random.Generator, lists: NameLists) -> Identity:
    """Return a patient made of the lists' names."""
    town = _pick(rng, lists.towns)
    hospital = _pick(rng, lists.hospitals)
    area, exchange, line = rng.integers(201, 990), rng.integers(200, 999), rng.integers(1000, 9999)
    return Identity(
        forename=_pick(rng, lists.forename),
        family=_pick(rng, lists.family),
        sex=_pick(rng, ["M", "F"]),
        born=FIRST_BIRTH + timedelta(days=int(rng.integers(0, 365 * 85))),
        studied=FIRST_STUDY + timedelta(days=int(rng.integers(0, 365 * 6))),
        record=_draw_record(rng),
        accession=f"{_pick(rng, ['A', 'ACC', 'RAD', ''])}{rng.integers(10**6, 10**8)}",
        hospital=hospital.format(town=town, forename=_pick(rng, lists.forename), family=_pick(rng, lists.family)),
        town=town,
        street=f"{rng.integers(1, 9999)} {_pick(rng, lists.family)} {_pick(rng, ['Street', 'Avenue', 'Road', 'Lane'])}",
        physician=_draw_name(rng, lists),
        reader=_draw_name(rng, lists),
        phone=_pick(rng, ["({}) {}-{}", "{}-{}-{}", "+1 {} {} {}"]).format(area, exchange, line),
    )


def _draw_record(rng: np.random.Generator) -> str:
    digits = str(rng.integers(10**5, 10**8))
    return _pick(rng, [digits, f"{digits[:-4]}-{digits[-4:]}", f"{_pick(rng, ['A', 'B', 'H', 'M', 'P'])}{digits}"])


def _draw_name(rng: np.random.Generator, lists: NameLists) -> tuple[str, str]:
    return _pick(rng, lists.forename), _pick(rng, lists.family)


def _pick(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
