"""The identifiers of a patient that a study's header names; texts and pixels are searched for them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime

from pydicom import DataElement, Dataset
from pydicom.tag import BaseTag

from nightshift_image_text.deidentification.counts import Kind

SHORTEST = 3  # characters of a name's part or an identifier that is searched for
PIXELS = 0x7FE0  # the group of their elements
IDENTIFIERS = ("PatientID", "AccessionNumber", "StudyID", "OtherPatientIDs", "AdmissionID", "IssuerOfPatientID")
INSTITUTIONS = ("InstitutionName", "InstitutionAddress", "InstitutionalDepartmentName")
CONTACTS = ("PatientTelephoneNumbers", "PatientAddress", "ReferringPhysicianTelephoneNumbers")


@dataclass(frozen=True)
class Known:
    """What is known of a patient and a study before they are cleaned.

    Attributes:
        patient: whose dates are moved together; an identifier as the header has it.
        names: of persons, in any order and spelling of their parts.
        identifiers: record and accession numbers.
        institutions: hospitals and departments.
        contacts: telephones and addresses.
        dates: of birth, of the study.
    """

    patient: str
    names: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    institutions: frozenset[str] = frozenset()
    contacts: frozenset[str] = frozenset()
    dates: frozenset[date] = frozenset()

    def patterns(self) -> Iterator[tuple[Kind, re.Pattern[str]]]:
        """Return how each identifier looks in a folded text (`fold`)."""
        for name in self.names:
            yield from ((Kind.NAME, _words([part])) for part in _parts(name))
        for kind, texts in self._phrases():
            yield from ((kind, _words(words)) for text in texts if (words := re.findall(r"\w+", fold(text))))

    def _phrases(self) -> list[tuple[Kind, Iterable[str]]]:
        identifiers = [text for text in self.identifiers if len(text) >= SHORTEST]
        dates = [day.strftime(form) for day in self.dates for form in ("%Y%m%d", "%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y")]
        return [
            (Kind.IDENTIFIER, identifiers),
            (Kind.INSTITUTION, self.institutions),
            (Kind.CONTACT, self.contacts),
            (Kind.DATE, dates),
        ]


def fold(text: str) -> str:
    """Return a text in lower case and without accents, each character in its old place."""
    return text.lower() if text.isascii() else "".join(_fold_character(character) for character in text)


def read_known(dataset: Dataset) -> Known:
    """Return the identifiers in the header of a study that is not cleaned yet, those of nested sequences too."""
    elements = list(walk(dataset))
    texts = {
        group: frozenset(text for element in elements if element.keyword in keywords for text in _texts(element))
        for group, keywords in (("ids", IDENTIFIERS), ("institutions", INSTITUTIONS), ("contacts", CONTACTS))
    }
    return Known(
        patient=str(dataset.get("PatientID", "")),
        names=frozenset(text for element in elements if element.VR == "PN" for text in _texts(element)),
        identifiers=texts["ids"],
        institutions=texts["institutions"],
        contacts=texts["contacts"],
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


def _parts(name: str) -> list[str]:
    return [part for part in re.findall(r"[^\W\d_]+", fold(name)) if len(part) >= SHORTEST]


def _words(words: Iterable[str]) -> re.Pattern[str]:
    """Match words beside each other, whatever stands between them, that are no part of longer ones."""
    return re.compile(r"(?<!\w)" + r"[\W_]{0,3}".join(map(re.escape, words)) + r"(?!\w)")


def _fold_character(character: str) -> str:
    base = unicodedata.normalize("NFKD", character)[0]
    return lowered if len(lowered := base.lower()) == 1 else base
