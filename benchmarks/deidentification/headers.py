"""Planted identifiers in headers: cleaned by this package, by `deid` with its own recipe, and by `dicognito`."""

import io
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from copy import deepcopy

import numpy as np
from deid.dicom import fields
from deid.dicom.parser import DicomParser
from dicognito.anonymizer import Anonymizer
from pydicom import Dataset, FileDataset

from benchmarks import figures
from benchmarks.deidentification import searches
from benchmarks.deidentification.shares import Span, share
from nightshift_image_text.deidentification.corpus.headers import list_secrets, write_header
from nightshift_image_text.deidentification.corpus.identities import draw_identity, read_names
from nightshift_image_text.deidentification.header import clean_header
from nightshift_image_text.deidentification.known import spell, walk
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms

PSEUDONYMS = Pseudonyms(b"a key that only the benchmark has")
Cleaner = Callable[[Dataset], Dataset]


def clean_by_deid(header: Dataset, *, without_private: bool) -> Dataset:
    """Return a header cleaned by the recipe that `deid` brings."""
    copy = FileDataset("", deepcopy(header), file_meta=deepcopy(header.file_meta))
    with redirect_stdout(io.StringIO()):
        parser = DicomParser(copy)
        parser.parse(remove_private=without_private)
    fields._get_fields_inner.cache_clear()  # noqa: SLF001 - it keeps every data set
    return copy


def clean_by_dicognito(header: Dataset) -> Dataset:
    """Return a header cleaned by `dicognito`."""
    copy = FileDataset("", deepcopy(header), file_meta=deepcopy(header.file_meta))
    Anonymizer(seed="benchmark").anonymize(copy)
    return copy


OURS = "this package"
CLEANERS: Mapping[str, Cleaner] = {
    OURS: lambda header: clean_header(header, PSEUDONYMS)[0],
    "deid, its own recipe": lambda header: clean_by_deid(header, without_private=False),
    "deid, its own recipe, private tags removed": lambda header: clean_by_deid(header, without_private=True),
    "dicognito": clean_by_dicognito,
}


def measure(studies: int, minutes: float) -> list[figures.Row]:
    """Return the rows of each cleaner, of the studies that fit in its time: of three minutes two are this package's."""
    others = minutes / 3 / (len(CLEANERS) - 1)
    return [
        measure_cleaner(name, Span(range(studies), 60 * (minutes * 2 / 3 if name == OURS else others)))
        for name in CLEANERS
    ]


def measure_cleaner(name: str, span: Span) -> figures.Row:
    """Return what one cleaner leaves."""
    counts: Counter[str] = Counter()
    for number in span:
        rng = np.random.default_rng(number)
        identity = draw_identity(rng, read_names("holdout" if number % 2 else "development"))
        whole = _spell_all(CLEANERS[name](write_header(rng, identity)))
        left = [searches.is_left(secret, whole) for secret in list_secrets(identity)]
        counts += Counter({"headers": 1, "secrets": len(left), "left": sum(left), "leaking": int(any(left))})
    return {
        "cleaner": name,
        "headers": counts["headers"],
        "headers with something left": counts["leaking"],
        **share("identifiers", counts["left"], counts["secrets"], "left"),
    }


def _spell_all(header: Dataset) -> str:
    elements = [*walk(header), *walk(header.file_meta)]
    return "\n".join(spell(element) for element in elements)
