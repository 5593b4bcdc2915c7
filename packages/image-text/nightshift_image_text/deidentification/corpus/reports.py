"""Made-up reports: templates whose places are filled with identifiers, which are kept beside the text."""

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files

import numpy as np
import yaml

from nightshift_image_text.deidentification.corpus.identities import DEVELOPMENT, Identity

SLOT = re.compile(r"{(\w+)}")
OLD = 90  # years, from which an age is an identifier
DATES = ("%Y-%m-%d", "%m/%d/%Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%m/%d/%y")
NAMES = (
    "{forename} {family}",
    "{family}, {forename}",
    "{forename} {family}",
    "{upper}, {forename}",
    "{upper}^{forename}",
)
PHYSICIANS = ("{forename} {family}", "{forename} {family}", "{initial}. {family}")


@dataclass(frozen=True)
class Planted:
    """An identifier in a report.

    Attributes:
        field: of its template.
        text: as it was written.
        start, end: characters of the report.
    """

    field: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class PlantedReport:
    """A text and its identifiers.

    Attributes:
        text: the whole.
        planted: in order.
    """

    text: str
    planted: tuple[Planted, ...]


@cache
def read_templates(group: str = DEVELOPMENT) -> list[str]:
    """Return the templates of a group of reports.yaml."""
    templates: list[str] = yaml.safe_load((files(__package__) / "reports.yaml").read_text())[group]
    return templates


def write_report(rng: np.random.Generator, identity: Identity, templates: list[str]) -> PlantedReport:
    """Return a report about a patient, of one of the templates."""
    template = templates[int(rng.integers(len(templates)))]
    values = _list_values(rng, identity)
    text, planted = "", []
    for number, part in enumerate(SLOT.split(template)):
        value = values[part] if number % 2 else part  # texts and names of places take turns
        if number % 2 and _is_identifier(part, value):
            planted.append(Planted(part, value, len(text), len(text) + len(value)))
        text += value
    return PlantedReport(text, tuple(planted))


def _list_values(rng: np.random.Generator, identity: Identity) -> dict[str, str]:
    """Return what fills each field."""
    prior = identity.studied - timedelta(days=int(rng.integers(1, 2000)))
    form = str(rng.choice(DATES))
    same = ("forename", "family", "record", "accession", "hospital", "town", "street", "phone")
    return {
        "patient": _spell_name(rng, (identity.forename, identity.family), NAMES),
        "physician": _spell_name(rng, identity.physician, PHYSICIANS),
        "reader": _spell_name(rng, identity.reader, PHYSICIANS),
        "salutation": "Mr." if identity.sex == "M" else "Ms.",
        "age": str(identity.age),
        "born": identity.born.strftime(form),
        "studied": identity.studied.strftime(form),
        "prior": prior.strftime(form),
        **{field: getattr(identity, field) for field in same},
    }


def _spell_name(rng: np.random.Generator, name: tuple[str, str], forms: tuple[str, ...]) -> str:
    forename, family = name
    return str(rng.choice(forms)).format(forename=forename, family=family, upper=family.upper(), initial=forename[0])


def _is_identifier(field: str, text: str) -> bool:
    return field != "salutation" and (field != "age" or int(text) >= OLD)
