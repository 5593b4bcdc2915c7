"""Headers without identifiers: a recipe for the library `deid` that keeps what reading pixels needs, and no more.

It removes more than DICOM's basic profile (PS3.15, table E.1-1): whatever it does not name goes.
"""

from collections.abc import Callable
from copy import deepcopy
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files

from deid.config import DeidRecipe
from deid.dicom import fields as deid_fields
from deid.dicom.parser import DicomParser
from pydicom import DataElement, Dataset, FileDataset
from pydicom.dataset import FileMetaDataset

from nightshift_image_text.deidentification.counts import Counts, Identifier
from nightshift_image_text.deidentification.known import KnownIdentifiers, read_element, read_known, spell
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms

OLDEST = 89  # years that are kept; older patients are few enough to be found
DATES = ("StudyDate", "SeriesDate", "AcquisitionDate", "ContentDate")
UIDS = ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID", "FrameOfReferenceUID", "MediaStorageSOPInstanceUID")
NAMES = ("PatientID", "PatientName", "AccessionNumber", "InstitutionName", "StationName", "DeviceSerialNumber")
METHOD = "nightshift: basic profile, dates shifted"
CODES = (("113100", "Basic Application Confidentiality Profile"), ("113107", "Retain Longitudinal Modified Dates"))
KINDS = {"PN": Identifier.NAME, "DA": Identifier.DATE, "DT": Identifier.DATE, "UI": Identifier.UID}
DOCUMENTS = ("IconImageSequence", "EncapsulatedDocument", "DocumentTitle")
NUMBERS = ("DS", "IS", "US", "SS", "FD", "FL", "TM")  # 512 columns are no record number
OVERLAYS = range(0x6000, 0x6100)

Path = tuple[int, ...]
Replacement = Callable[[str], str]


def clean_header(dataset: Dataset, pseudonyms: Pseudonyms) -> tuple[Dataset, Counts]:
    """Return a header without identifiers, and what was masked in it; the pixels stay as they are.

    Dates of the study are moved by the patient's days, UIDs and the identifiers of patient, site and device become
    pseudonyms, and whatever is not named in `kept.txt` is removed, in nested sequences too.

    Args:
        dataset: as it was read; it is not changed.
        pseudonyms: of the key of this lake.
    """
    known = read_known(dataset)
    cleaned = _copy_readable(dataset)
    before = _list_values(cleaned)
    _apply_recipe(cleaned, known, pseudonyms)
    _remove_known(cleaned, known)
    _cap_age(cleaned)
    after = _list_values(cleaned)
    _state_method(cleaned)
    return cleaned, Counts(kind for path, (kind, text) in before.items() if after.get(path, (kind, ""))[1] != text)


@cache
def build_recipe() -> DeidRecipe:
    """Return the actions of `deid`: everything but `kept.txt` is removed, then values are replaced."""
    recipe = DeidRecipe(base=False, deid=[])
    kept = "|".join([*_read_kept(), *NAMES, *DATES, *UIDS])
    removed = {"action": "REMOVE", "field": f"except:^({kept})$"}
    groups = {"name": NAMES, "date": DATES, "uid": UIDS}
    replaced = [
        {"action": "REPLACE", "field": field, "value": f"func:{function}"}
        for function, fields in groups.items()
        for field in fields
    ]
    recipe.deid = {"format": "dicom", "header": [removed, *replaced]}
    return recipe


def _read_kept() -> list[str]:
    """Return the keywords of what is neither removed nor replaced."""
    lines = (files(__package__) / "kept.txt").read_text().splitlines()
    return [keyword for line in lines if not line.startswith("#") for keyword in line.split()]


def _apply_recipe(dataset: FileDataset, known: KnownIdentifiers, pseudonyms: Pseudonyms) -> None:
    days = timedelta(days=pseudonyms.days(known.patient))
    parser = DicomParser(dataset, recipe=build_recipe())
    functions: dict[str, Replacement] = {
        "name": pseudonyms.name,
        "uid": pseudonyms.uid,
        "date": lambda text: _shift(text, days),
    }
    for name, function in functions.items():
        parser.define(name, _adapt(function))
    parser.parse(remove_private=True)
    parser.reset_preamble()
    deid_fields._get_fields_inner.cache_clear()  # noqa: SLF001 - it keeps every data set, identifiers and all


def _adapt(function: Replacement) -> Callable[..., str]:
    """Return a function in the form that `deid` calls."""

    def replace(field: object, **_: object) -> str:
        value = str(field.element.value or "")  # type: ignore[attr-defined] # deid has no types
        return function(value) if value else ""

    return replace


def _shift(text: str, days: timedelta) -> str:
    """Return a date moved by some days; what is no date is left out."""
    try:
        return (datetime.strptime(text.strip(), "%Y%m%d") + days).strftime("%Y%m%d")
    except ValueError:
        return ""


def _copy_readable(dataset: Dataset) -> FileDataset:
    """Return a copy without the elements that cannot be read, in the class that `deid` needs."""
    copy = FileDataset("", deepcopy(dataset), file_meta=deepcopy(getattr(dataset, "file_meta", FileMetaDataset())))
    _drop_unreadable(copy)
    return copy


def _drop_unreadable(dataset: Dataset) -> None:
    for tag in list(dataset.keys()):
        element = read_element(dataset, tag)
        if element is None:
            del dataset[tag]
        elif element.VR == "SQ":
            for item in element.value or ():
                _drop_unreadable(item)


def _remove_known(dataset: Dataset, known: KnownIdentifiers) -> None:
    """Remove the kept texts in which an identifier stands though their tag promises something else."""
    for tag in list(dataset.keys()):
        element = dataset[tag]
        if element.VR == "SQ":
            for item in element.value or ():
                _remove_known(item, known)
        elif _may_name(element) and any(known.find(spell(element))):
            del dataset[tag]


def _may_name(element: DataElement) -> bool:
    """Tell whether an element may hold an identifier; moved dates may be other dates of the patient's by chance."""
    is_number = element.VR in NUMBERS and not any(map(str.isalpha, spell(element)))
    return not is_number and element.keyword not in DATES


def _cap_age(dataset: Dataset) -> None:
    age = str(dataset.get("PatientAge", ""))
    if age.endswith("Y") and age[:-1].isdigit() and int(age[:-1]) > OLDEST:
        dataset.PatientAge = f"{OLDEST + 1:03}Y"


def _state_method(dataset: Dataset) -> None:
    dataset.PatientIdentityRemoved = "YES"
    dataset.LongitudinalTemporalInformationModified = "MODIFIED"
    dataset.DeidentificationMethod = METHOD
    dataset.DeidentificationMethodCodeSequence = [_code(value, meaning) for value, meaning in CODES]


def _code(value: str, meaning: str) -> Dataset:
    code = Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, "DCM", meaning
    return code


def _list_values(dataset: Dataset, path: Path = ()) -> dict[Path, tuple[Identifier, str]]:
    """Return the kind and the text of each element by its tags and the numbers of the items it lies in."""
    values: dict[Path, tuple[Identifier, str]] = {}
    for element in dataset:
        if element.VR == "SQ" and element.keyword not in DOCUMENTS:
            for number, item in enumerate(element.value or ()):
                values |= _list_values(item, (*path, element.tag, number))
        elif text := spell(element):
            values[*path, element.tag] = _tell_kind(element), text
    return values


def _tell_kind(element: DataElement) -> Identifier:
    """Return what a masked element is, by its tag."""
    if element.tag.is_private:
        return Identifier.PRIVATE
    if element.tag.group in OVERLAYS:
        return Identifier.OVERLAY
    if element.keyword in DOCUMENTS:
        return Identifier.DOCUMENT
    return _tell_public_kind(element)


def _tell_public_kind(element: DataElement) -> Identifier:
    for words, kind in (
        (("PatientAge",), Identifier.AGE),
        (("Institution", "Station"), Identifier.INSTITUTION),
        (("Telephone", "Address"), Identifier.CONTACT),
        (("PatientID", "Accession", "StudyID", "SerialNumber", "AdmissionID"), Identifier.IDENTIFIER),
    ):
        if any(word in element.keyword for word in words):
            return kind
    return KINDS.get(element.VR, Identifier.FIELD)
