"""The identifiers of a patient that a study's header names; texts and pixels are searched for them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, cached_property
from importlib.resources import files
from itertools import permutations

from pydicom import DataElement, Dataset
from pydicom.tag import BaseTag

from nightshift_image_text.deidentification.counts import Identifier

WORDY = (Identifier.NAME, Identifier.INSTITUTION)  # kinds that may be words of medicine too
TELLING = 4  # characters of a place's word that is searched for alone
SHORTEST = 3  # characters of a name's part or an identifier that is searched for
BIRTH = "PatientBirthDate"
PIXELS = 0x7FE0  # the group of their elements
IDENTIFIERS = ("PatientID", "AccessionNumber", "StudyID", "OtherPatientIDs", "AdmissionID", "IssuerOfPatientID")
INSTITUTIONS = ("InstitutionName", "InstitutionAddress", "InstitutionalDepartmentName")
CONTACTS = ("PatientTelephoneNumbers", "PatientAddress", "ReferringPhysicianTelephoneNumbers")


@dataclass(frozen=True)
class KnownIdentifiers:
    """What is known of a patient and a study before they are cleaned.

    Attributes:
        patient: whose dates are moved together; an identifier as the header has it.
        names: of persons, in any order and spelling of their parts.
        identifiers: record and accession numbers.
        institutions: hospitals and departments.
        contacts: telephones and addresses.
        dates: of the study, of birth.
        born: the date of birth.
    """

    patient: str
    names: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    institutions: frozenset[str] = frozenset()
    contacts: frozenset[str] = frozenset()
    dates: frozenset[date] = frozenset()
    born: date | None = None

    def find(self, text: str) -> Iterator[tuple[Identifier, int, int]]:
        """Return the kind, start and end of each identifier in a text; of names each part is found alone."""
        folded = fold(text)
        for kind, pattern in self._patterns:
            for match in pattern.finditer(folded):
                if kind not in WORDY or not _is_plain_word(text[match.start() : match.end()]):
                    yield kind, *match.span()

    @cached_property
    def _patterns(self) -> list[tuple[Identifier, re.Pattern[str]]]:
        names = [(Identifier.NAME, _words(parts)) for name in self.names for parts in _list_parts(name)]
        phrases = [
            (kind, _words(words)) for kind, texts in self._phrases() for text in texts if (words := _split(text))
        ]
        locations = [*self.institutions, *self.contacts]
        telling = [word for location in locations for word in _list_telling_words(location)]
        return names + phrases + [(Identifier.INSTITUTION, _words([word])) for word in telling]

    def _phrases(self) -> list[tuple[Identifier, Iterable[str]]]:
        identifiers = [text for text in self.identifiers if len(text) >= SHORTEST]
        dates = [day.strftime(form) for day in self.dates for form in ("%Y%m%d", "%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y")]
        return [
            (Identifier.IDENTIFIER, identifiers),
            (Identifier.INSTITUTION, self.institutions),
            (Identifier.CONTACT, self.contacts),
            (Identifier.DATE, dates),
        ]


@cache
def read_medical_words() -> frozenset[str]:
    """Return the words, in lower case, that may look like names but are none in reports."""
    lines = (files(__package__) / "medical.txt").read_text().splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def fold(text: str) -> str:
    """Return a text in lower case and without accents, each character in its old place."""
    return text.lower() if text.isascii() else "".join(_fold_character(character) for character in text)


def read_known(dataset: Dataset) -> KnownIdentifiers:
    """Return the identifiers in the header of a study that is not cleaned yet, those of nested sequences too."""
    elements = list(walk(dataset))
    texts = {
        group: frozenset(text for element in elements if element.keyword in keywords for text in _texts(element))
        for group, keywords in (("ids", IDENTIFIERS), ("institutions", INSTITUTIONS), ("contacts", CONTACTS))
    }
    return KnownIdentifiers(
        patient=str(dataset.get("PatientID", "")),
        names=frozenset(text for element in elements if element.VR == "PN" for text in _texts(element)),
        identifiers=texts["ids"],
        institutions=texts["institutions"],
        contacts=texts["contacts"],
        born=next((day for element in elements if element.keyword == BIRTH for day in _days(element)), None),
        dates=frozenset(day for element in elements if element.VR == "DA" for day in _days(element)),
    )


def walk(dataset: Dataset) -> Iterator[DataElement]:
    """Return the elements of a data set and of the items in its sequences, but those that cannot be read."""
    for tag in list(dataset.keys()):
        element = read_element(dataset, tag)
        if element is not None and element.VR == "SQ":
            for item in element.value or ():
                yield from walk(item)
        elif element is not None:
            yield element


def read_element(dataset: Dataset, tag: BaseTag) -> DataElement | None:
    """Return an element, or None where its value is not of its type."""
    try:
        return dataset[tag]
    except Exception:  # pydicom raises many kinds
        return None


def spell(element: DataElement) -> str:
    """Return an element's value as text, bytes too; of pixels nothing."""
    if element.tag.group == PIXELS:
        return ""
    return element.value.decode("latin-1") if isinstance(element.value, bytes) else str(element.value or "")


def _texts(element: DataElement) -> Iterator[str]:
    values = element.value if element.VM > 1 else [element.value]
    return (str(value).strip() for value in values if value is not None and str(value).strip())


def _days(element: DataElement) -> Iterator[date]:
    for text in _texts(element):
        try:
            yield datetime.strptime(text, "%Y%m%d").date()
        except ValueError:
            continue


def _list_parts(name: str) -> list[tuple[str, ...]]:
    """Return what of a name is searched for: each part, and pairs of parts of which one is too short to stand alone."""
    parts = re.findall(r"[^\W\d_]+", fold(name))
    pairs = [pair for pair in permutations(parts[:3], 2) if min(map(len, pair)) < SHORTEST]
    return [*((part,) for part in parts if len(part) >= SHORTEST), *pairs]


def _list_telling_words(location: str) -> list[str]:
    """Return the words of a hospital's name or an address that others do not have."""
    words = re.findall(r"[^\W\d_]+", fold(location))
    return [word for word in words if len(word) >= TELLING and word not in read_medical_words()]


def _is_plain_word(text: str) -> bool:
    """Tell whether a word in lower case is one of medicine: a stone in a kidney is nobody's name."""
    return text[0].islower() and fold(text) in read_medical_words()


def _split(text: str) -> list[str]:
    return re.findall(r"\w+", fold(text))


def _words(words: Iterable[str]) -> re.Pattern[str]:
    """Match words beside each other, whatever stands between them, that are no part of longer ones."""
    return re.compile(r"(?<!\w)" + r"[\W_]{0,3}".join(map(re.escape, words)) + r"(?!\w)")


def _fold_character(character: str) -> str:
    base = unicodedata.normalize("NFKD", character)[0]
    return lowered if len(lowered := base.lower()) == 1 else base
