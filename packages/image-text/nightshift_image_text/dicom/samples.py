"""From a DICOM data set to the samples of a frame, as its scanner stored them; color is RGB."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydicom import Dataset, uid
from pydicom.encaps import get_frame
from pydicom.pixels.decoders.base import get_decoder
from pydicom.uid import UID

from nightshift.items.images import UnusableError
from nightshift_image_text.dicom import codestreams, isolated

Samples = npt.NDArray[np.integer[Any]]

NATIVE = (
    uid.ImplicitVRLittleEndian,
    uid.ExplicitVRLittleEndian,
    uid.ExplicitVRBigEndian,
    uid.DeflatedExplicitVRLittleEndian,
)
# one decoder a transfer syntax, so that a frame is the same image wherever it is read
DECODERS = {
    uid.RLELossless: "pydicom",
    uid.JPEGBaseline8Bit: "pillow",
    uid.JPEGExtended12Bit: isolated.NAME,
    uid.JPEGLossless: isolated.NAME,
    uid.JPEGLosslessSV1: isolated.NAME,
    uid.JPEGLSLossless: isolated.NAME,
    uid.JPEGLSNearLossless: isolated.NAME,
    uid.JPEG2000Lossless: "pylibjpeg",
    uid.JPEG2000: "pylibjpeg",
    uid.HTJ2KLossless: "pylibjpeg",
    uid.HTJ2KLosslessRPCL: "pylibjpeg",
    uid.HTJ2K: "pylibjpeg",
}
GRAY = ("MONOCHROME1", "MONOCHROME2", "PALETTE COLOR")
COLOR = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
OTHER_PIXELS = ("FloatPixelData", "DoubleFloatPixelData")
BITS = (1, 8, 16, 32)


@dataclass(frozen=True)
class PixelLayout:
    """What a header says of pixels: rows, columns, frames, samples of a pixel, bits that a sample takes."""

    rows: int
    columns: int
    frames: int
    samples: int
    bits: int

    @classmethod
    def read(cls, dataset: Dataset) -> "PixelLayout":
        """Read and check a header.

        Raises:
            UnusableError: `no_pixels`, `wrong_mode` or `bad_header`.
        """
        if "PixelData" not in dataset:
            raise UnusableError("wrong_mode" if any(name in dataset for name in OTHER_PIXELS) else "no_pixels")
        samples, photometric = _number(dataset, "SamplesPerPixel"), str(dataset.get("PhotometricInterpretation", ""))
        if not photometric or samples != (3 if photometric in COLOR else 1 if photometric in GRAY else samples):
            raise UnusableError("bad_header")
        if photometric not in (*GRAY, *COLOR):
            raise UnusableError("wrong_mode")
        frames = count_frames(dataset)
        layout = cls(_number(dataset, "Rows"), _number(dataset, "Columns"), frames, samples, _bits(dataset))
        if layout.bits == 1 and samples == 3:
            raise UnusableError("wrong_mode")
        return layout

    @property
    def pixels(self) -> int:
        """Those of a frame."""
        return self.rows * self.columns


def count_frames(dataset: Dataset) -> int:
    """Return how many frames a header says there are.

    Raises:
        UnusableError: `bad_header`.
    """
    return 1 if dataset.get_item("NumberOfFrames") is None else _number(dataset, "NumberOfFrames")


def read_frame(dataset: Dataset, frame: int, max_pixels: int) -> Samples:
    """Return the samples of a frame, (rows, columns), of color (rows, columns, 3).

    Args:
        dataset: of a DICOM file.
        frame: from 0.
        max_pixels: rows times columns, above which nothing is decoded.

    Raises:
        UnusableError: any rule of `nightshift_image_text.dicom.ALLOWED` but `bad_window` and `many_frames`.
    """
    syntax = dataset.file_meta.TransferSyntaxUID
    layout = PixelLayout.read(dataset)
    if layout.pixels > max_pixels:
        raise UnusableError("decompression_bomb")
    if syntax not in (*NATIVE, *DECODERS):
        raise UnusableError("unsupported_transfer_syntax")
    if syntax in NATIVE:
        _check_length(dataset, layout)
    else:
        _check_size(_encoded(dataset, frame, layout.frames), syntax, layout)
    return get_decoder(syntax).as_array(dataset, index=frame, decoding_plugin=DECODERS.get(syntax, ""))[0]


def _number(dataset: Dataset, keyword: str) -> int:
    try:
        value = int(dataset[keyword].value)
    except Exception:  # missing, empty, several, or no number
        raise UnusableError("bad_header") from None
    if value < 1:
        raise UnusableError("bad_header")
    return value


def _bits(dataset: Dataset) -> int:
    """Return the bits that a sample takes, as they agree with those that are stored in it."""
    allocated, stored = _number(dataset, "BitsAllocated"), _number(dataset, "BitsStored")
    sign = dataset.get("PixelRepresentation")
    if allocated not in BITS or stored > allocated or sign not in (0, 1):
        raise UnusableError("bad_header")
    return allocated


def _check_length(dataset: Dataset, layout: PixelLayout) -> None:
    """Check that uncompressed pixels are as many as the header says: those of another depth would look like noise."""
    bits = layout.pixels * layout.frames * layout.samples * layout.bits
    if dataset.PhotometricInterpretation == "YBR_FULL_422":
        bits = bits * 2 // 3
    expected, size = -(-bits // 8), len(dataset.PixelData)
    if size < expected:
        raise UnusableError("short_pixels")
    if size - expected >= max(expected // layout.frames, 2):  # a frame more, or samples of twice the bits
        raise UnusableError("bad_header")


def _encoded(dataset: Dataset, frame: int, count: int) -> bytes:
    """Return the codestream of a frame."""
    if not dataset["PixelData"].is_undefined_length:
        raise UnusableError("bad_header")
    try:
        return get_frame(dataset.PixelData, frame, number_of_frames=count)
    except Exception:
        raise UnusableError("short_pixels") from None


def _check_size(codestream: bytes, syntax: UID, layout: PixelLayout) -> None:
    """Check that a codestream, by which its decoder allocates, is of the size that the header says."""
    if syntax != uid.RLELossless and codestreams.find_size(codestream) != (layout.rows, layout.columns):
        raise UnusableError("bad_header")
