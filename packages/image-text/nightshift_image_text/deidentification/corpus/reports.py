"""Made-up reports: templates whose places are filled with identifiers, which are kept beside the text."""

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files

import numpy as np
import yaml

from nightshift_image_text.deidentification.corpus.identities import DEVELOPMENT, Identity

PLACE = re.compile(r"{(\w+)}")
OLD = 90  # years, from which an age is an identifier
DATES = ("%Y-%m-%d", "%m/%d/%Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%m/%d/%y")
NAMES = ("{given} {family}", "{family}, {given}", "{given} {family}", "{upper}, {given}", "{upper}^{given}")
PHYSICIANS = ("{given} {family}", "{given} {family}", "{initial}. {family}")


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
class Report:
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


def write_report(rng: np.random.Generator, identity: Identity, templates: list[str]) -> Report:
    """Return a report about a patient, of one of the templates."""
    template = templates[int(rng.integers(len(templates)))]
    values = _list_values(rng, identity)
    text, planted = "", []
    for number, part in enumerate(PLACE.split(template)):
        value = values[part] if number % 2 else part  # texts and names of places take turns
        if number % 2 and _is_identifier(part, value):
            planted.append(Planted(part, value, len(text), len(text) + len(value)))
        text += value
    return Report(text, tuple(planted))


def _list_values(rng: np.random.Generator, identity: Identity) -> dict[str, str]:
    """Return what fills each field."""
    prior = identity.studied - timedelta(days=int(rng.integers(1, 2000)))
    form = str(rng.choice(DATES))
    same = ("given", "family", "record", "accession", "hospital", "town", "street", "phone")
    return {
        "patient": _spell_name(rng, (identity.given, identity.family), NAMES),
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
    given, family = name
    return str(rng.choice(forms)).format(given=given, family=family, upper=family.upper(), initial=given[0])


def _is_identifier(field: str, text: str) -> bool:
    return field != "salutation" and (field != "age" or int(text) >= OLD)
