"""What was masked, by kind; counts of files, texts and images add up to those of a night."""

from collections import Counter
from enum import StrEnum
from typing import TypeAlias

from nightshift.contracts.section import Fact


class Identifier(StrEnum):
    """What a masked value is."""

    NAME = "names"
    IDENTIFIER = "record and accession numbers"
    DATE = "dates"
    AGE = "ages over 89"
    INSTITUTION = "hospitals and places"
    CONTACT = "telephones and addresses"
    UID = "UIDs"
    PRIVATE = "private tags"
    OVERLAY = "overlays"
    DOCUMENT = "thumbnails and documents"
    FIELD = "other header fields"
    WORD = "burned-in words"
    KNOWN_WORD = "burned-in identifiers"


Counts: TypeAlias = Counter[Identifier]


def list_facts(counts: Counts) -> list[Fact]:
    """Return what was masked as facts of a page, the most first.

    How many are missed stands in docs/deidentification.md: a rate of made-up studies is none of a night's.
    """
    return [Fact(label=f"Masked: {kind}", value=count, format="count") for kind, count in counts.most_common()]
