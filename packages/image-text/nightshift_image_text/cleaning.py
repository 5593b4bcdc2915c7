"""One DICOM file and its report without identifiers: an image as PNG, its report, and who and what it is of.

A PNG has no header that could name anyone, and is read without a DICOM library. Its 8 bits are those that the file's
own window shows.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
from PIL import Image
from pydicom import Dataset

from nightshift.items.images import Pixels, UnusableError
from nightshift_image_text import dicom
from nightshift_image_text.deidentification.counts import Counts
from nightshift_image_text.deidentification.header import clean_header
from nightshift_image_text.deidentification.known import KnownIdentifiers, read_known
from nightshift_image_text.deidentification.pixels import clean_pixels
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms
from nightshift_image_text.deidentification.remains import find_left
from nightshift_image_text.deidentification.text import clean_text

IDENTITY = ("PatientID", "StudyInstanceUID", "SOPInstanceUID")


@dataclass(frozen=True)
class CleanImage:
    """A frame of a file without identifiers.

    Attributes:
        name: pseudonym of the frame.
        patient, study, site: pseudonyms; the site's is empty where the header names none.
        scanner: manufacturer and model.
        image: PNG.
        report: text.
    """

    name: str
    patient: str
    study: str
    site: str
    scanner: str
    image: bytes = field(repr=False)
    report: str = field(repr=False)


@dataclass
class Cleaner:
    """Takes identifiers out of files and reports, and counts what it masked.

    Attributes:
        pseudonyms: of the key of this lake.
        max_pixels: rows times columns, above which nothing is decoded.
        masked: what was masked, by kind and part -> how often.
    """

    pseudonyms: Pseudonyms
    max_pixels: int
    masked: Counter[str] = field(default_factory=Counter)

    def read_patient(self, content: bytes) -> str:
        """Return the pseudonym of a file's patient, empty where it names none."""
        try:
            with dicom.silence():
                patient = str(dicom.parse(content, self.max_pixels).get("PatientID") or "")
        except Exception:  # nothing in it can be read
            return ""
        return patient and self.pseudonyms.name(patient)

    def clean(self, content: bytes, report: str) -> Iterator[CleanImage]:
        """Yield the frames of a DICOM file.

        Raises:
            UnusableError: a rule of `nightshift_image_text.dicom`; `no_identity`: without PatientID, StudyInstanceUID
                or SOPInstanceUID; `identifiers_left`: an identifier of the header is still in text, header or pixels.
        """
        with dicom.silence():
            dataset = dicom.parse(content, self.max_pixels)
            if not all(str(dataset.get(keyword) or "").strip() for keyword in IDENTITY):
                raise UnusableError("no_identity")
            known = read_known(dataset)
            header, counts = clean_header(dataset, self.pseudonyms)
            self._count("headers", counts)
            text = self._clean_report(report, known)
            if find_left(known, header, text):
                raise UnusableError("identifiers_left")
            for frame in range(dicom.count_frames(dataset)):
                yield self._describe(header, frame, self._clean_frame(dataset, frame, known), text)

    def _clean_report(self, report: str, known: KnownIdentifiers) -> str:
        text, counts = clean_text(report, known, self.pseudonyms)
        self._count("reports", counts)
        return text

    def _clean_frame(self, dataset: Dataset, frame: int, known: KnownIdentifiers) -> Pixels:
        """Return what a reader sees of a frame, without burned-in words."""
        shown = np.asarray(dicom.render(dataset, frame, self.max_pixels))
        pixels, counts = clean_pixels(shown, known)
        self._count("pixels", counts)
        if find_left(known, pixels=pixels):
            raise UnusableError("identifiers_left")
        return pixels

    def _describe(self, header: Dataset, frame: int, pixels: Pixels, report: str) -> CleanImage:
        return CleanImage(
            name=self.pseudonyms.name(f"{header.SOPInstanceUID}/{frame}"),
            patient=str(header.PatientID),
            study=str(header.StudyInstanceUID),
            site=str(header.get("InstitutionName") or ""),
            scanner=f"{header.get('Manufacturer') or ''} {header.get('ManufacturerModelName') or ''}".strip(),
            image=_encode(pixels),
            report=report,
        )

    def _count(self, part: str, counts: Counts) -> None:
        self.masked.update({f"{kind} masked in {part}": count for kind, count in counts.items() if count})


def _encode(pixels: Pixels) -> bytes:
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()
