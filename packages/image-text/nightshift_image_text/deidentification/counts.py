"""What was masked, by kind; counts of files, texts and images add up to those of a night."""

from collections import Counter
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
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


Counts: TypeAlias = Counter[Kind]
