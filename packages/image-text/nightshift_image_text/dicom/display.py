"""From the samples of a frame to what a reader sees, uint8: DICOM PS3.3 C.11.1 (modality), C.11.2 (values of interest).

A gray frame goes through its modality's table or rescaling, then through its first table or window of interest. Without
these, a frame of 8 bits stays as it is, and another spans its own lowest to its highest sample.
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from pydicom import Dataset
from pydicom.pixels.processing import apply_color_lut, apply_modality_lut, apply_voi

from nightshift.items.images import Pixels, UnusableError
from nightshift_image_text.dicom.samples import Samples

Values = npt.NDArray[np.float64]

WHITE = 255
SEGMENTED = "SegmentedRedPaletteColorLookupTableData"
RESCALED = ("RescaleSlope", "ModalityLUTSequence")


def shade(samples: Samples, dataset: Dataset, frame: int) -> Pixels:
    """Return what a reader sees of a frame, uint8 (rows, columns), of color (rows, columns, 3).

    Args:
        samples: (rows, columns), or RGB (rows, columns, 3).
        dataset: of the DICOM file.
        frame: from 0, of which an enhanced object may have its own window.

    Raises:
        UnusableError: `bad_window` or `bad_header`.
    """
    photometric = dataset.PhotometricInterpretation
    if photometric == "PALETTE COLOR":
        return _look_up_colors(samples, dataset)
    if samples.ndim == 3:
        return _to_bytes(samples, dataset.BitsStored)
    shown = _shade_gray(samples, dataset, frame)
    return WHITE - shown if photometric == "MONOCHROME1" else shown


def _shade_gray(samples: Samples, dataset: Dataset, frame: int) -> Pixels:
    modality = _find_group(dataset, frame, "PixelValueTransformationSequence")
    interest = _find_group(dataset, frame, "FrameVOILUTSequence")
    is_signed = dataset.PixelRepresentation == 1
    values = cast(Values, apply_modality_lut(samples, modality).astype(np.float64))
    if interest.get("VOILUTSequence"):
        shares = _look_up(values, interest)
    elif window := read_window(interest):
        shares = apply_window(values, *window, str(interest.get("VOILUTFunction") or "LINEAR"))
    elif dataset.BitsStored == 8 and not is_signed and not any(name in modality for name in RESCALED):
        return cast(Pixels, samples.astype(np.uint8))
    else:
        return _spread(values, ~_find_padding(samples, dataset))
    shown = _quantize(shares)
    if shown.min() == shown.max() and samples.min() != samples.max():
        raise UnusableError("bad_window")
    return shown


def _find_group(dataset: Dataset, frame: int, keyword: str) -> Dataset:
    """Return what holds a frame's own attributes of a kind, those that all frames share, or the data set."""
    own, shared = dataset.get("PerFrameFunctionalGroupsSequence") or (), dataset.get("SharedFunctionalGroupsSequence")
    groups = [*own[frame : frame + 1], *(shared or ())[:1]]
    return next((group[keyword][0] for group in groups if group.get(keyword)), dataset)


def read_window(dataset: Dataset) -> tuple[float, float] | None:
    """Return center and width of the first window; None where there is none, or one of no width."""
    center, width = (_first_number(dataset, keyword) for keyword in ("WindowCenter", "WindowWidth"))
    if center is None or width is None or not np.isfinite([center, width]).all():
        return None
    least = 1.0 if (dataset.get("VOILUTFunction") or "LINEAR") == "LINEAR" else np.nextafter(0, 1)
    return (center, width) if width >= least else None


def _first_number(dataset: Dataset, keyword: str) -> float | None:
    try:
        value: Any = dataset[keyword].value
        return float(value if isinstance(value, str | int | float) else value[0])
    except Exception:  # missing, empty, or no number
        return None


def apply_window(values: Values, center: float, width: float, function: str) -> Values:
    """Return shares of white, 0 to 1: PS3.3 C.11.2.1.2.1 (LINEAR), C.11.2.1.3.1 (SIGMOID), C.11.2.1.3.2 (LINEAR_EXACT).

    Raises:
        UnusableError: `bad_header` for another function.
    """
    if function == "SIGMOID":
        return 1 / (1 + np.exp(np.clip(-4 * (values - center) / width, -700, 700)))
    if function not in ("LINEAR", "LINEAR_EXACT"):
        raise UnusableError("bad_header")
    if function == "LINEAR":
        center, width = center - 0.5, width - 1
    if width == 0:
        return (values > center).astype(np.float64)
    return np.clip((values - center) / width + 0.5, 0, 1)


def _look_up(values: Values, dataset: Dataset) -> Values:
    """Return shares of white by a table of values of interest."""
    item = dataset.VOILUTSequence[0]
    bits = item.LUTDescriptor[2]
    return apply_voi(np.rint(values).astype(np.int64), dataset) / float((1 << bits) - 1)


def _find_padding(samples: Samples, dataset: Dataset) -> npt.NDArray[np.bool_]:
    """Return which samples stand for no measured value, bool (rows, columns)."""
    padding = dataset.get("PixelPaddingValue")
    if not isinstance(padding, int):
        return np.zeros(samples.shape, bool)
    limit = dataset.get("PixelPaddingRangeLimit")
    low, high = sorted((padding, limit if isinstance(limit, int) else padding))
    return (samples >= low) & (samples <= high)


def _spread(values: Values, is_measured: npt.NDArray[np.bool_]) -> Pixels:
    """Return the lowest measured value as black, the highest as white."""
    measured = values[is_measured] if is_measured.any() else values
    low, high = float(measured.min()), float(measured.max())
    return _quantize(np.clip((values - low) / (high - low), 0, 1) if high > low else np.zeros_like(values))


def _quantize(shares: Values) -> Pixels:
    return cast(Pixels, np.rint(shares * WHITE).astype(np.uint8))


def _look_up_colors(samples: Samples, dataset: Dataset) -> Pixels:
    try:
        colors = apply_color_lut(samples, dataset)
    except Exception:  # tables that are missing, or shorter than they say
        raise UnusableError("bad_header") from None
    if SEGMENTED not in dataset and not dataset.file_meta.TransferSyntaxUID.is_little_endian:
        colors = colors.byteswap()  # pydicom takes the entries of tables for little-endian
    # entries of 16 bits hold 8 in some files
    is_wide = colors.dtype.itemsize > 1 and colors.max() > WHITE
    return cast(Pixels, (colors >> 8 if is_wide else colors)[..., :3].astype(np.uint8))


def _to_bytes(samples: Samples, bits: int) -> Pixels:
    return cast(Pixels, samples.astype(np.uint8) if bits == 8 else _quantize(samples / float((1 << bits) - 1)))
