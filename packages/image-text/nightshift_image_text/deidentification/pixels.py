"""Pixels without burned-in words: what looks like text to `rapidocr`'s detector is blacked out."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidocr import RapidOCR

from nightshift_image_text.deidentification.counts import Counts, Identifier
from nightshift_image_text.deidentification.known import KnownIdentifiers

Pixels = npt.NDArray[Any]
Box = tuple[slice, slice]  # rows, columns

MARGIN = 1  # pixels around what the detector marks, which is larger than the letters
LARGE = 0.1  # of the image's shorter side: text above it is read before it counts as text
LEAST_LETTERS = 3  # of a word
SURE = 0.7  # score of reading, above which one letter is text too
SAMPLES = (3, 4)  # of a pixel in color, on the last axis
LIGHTEST = 255
RANGE = (0.1, 99.9)  # percentiles of the pixels that become black and white
OPTIONS = {
    "Global.log_level": "error",
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "Det.limit_side_len": 512,  # of the shorter side, to which smaller images are enlarged
    "Det.box_thresh": 0.4,
}


def clean_pixels(pixels: Pixels, known: KnownIdentifiers) -> tuple[Pixels, Counts]:
    """Return an image without what looks like text, and how many lines of text were masked.

    Args:
        pixels: (rows, columns) or (rows, columns, samples) of 3 or 4 samples, or either after an axis of frames; of
            any integer or float type. It is not changed.
        known: identifiers, which are counted on their own where a masked line reads like one.
    """
    cleaned, counts = pixels.copy(), Counts()
    for frame in list_frames(cleaned):
        lines = read_lines(frame)
        counts += Counts(_tell_kind(text, known) for _, text in lines)
        for box, _ in lines:
            frame[box] = frame.min()
    return cleaned, counts


def read_lines(frame: Pixels) -> list[tuple[Box, str]]:
    """Return what looks like a line of text in one frame: its rows and columns, and how it reads, maybe as nothing."""
    image = _to_gray(frame)
    corners = _reader()(image, use_cls=False, use_rec=False).boxes
    if corners is None:
        return []
    lines = _reader().recognize_txt(_reader().crop_text_regions(image, corners))
    boxes = [_enclose(points, image.shape) for points in corners]
    return [
        (box, text)
        for box, text, score in zip(boxes, lines.txts, lines.scores, strict=True)
        if not _is_shape(box, image.shape, text, score)
    ]


@cache
def _reader() -> RapidOCR:
    return RapidOCR(params=OPTIONS)


def list_frames(pixels: Pixels) -> Iterator[Pixels]:
    """Return views of the frames, each (rows, columns) or (rows, columns, samples)."""
    dimensions = 3 if pixels.ndim > 2 and pixels.shape[-1] in SAMPLES else 2
    return iter(pixels.reshape(-1, *pixels.shape[-dimensions:]))


def _to_gray(frame: Pixels) -> npt.NDArray[np.uint8]:
    """Return a frame as its reader sees it: (rows, columns, 3), of whatever range its values are."""
    gray = frame[..., :3].mean(axis=-1) if frame.ndim == 3 else frame.astype(float)
    low, high = np.percentile(gray, RANGE)
    levels = ((gray - low) / max(high - low, 1e-9)).clip(0, 1) * LIGHTEST
    return np.repeat(levels.astype(np.uint8)[..., None], 3, axis=-1)


def _enclose(points: npt.NDArray[np.float32], shape: tuple[int, ...]) -> Box:
    """Return the rows and columns around a box's corners, (4, 2) as x and y, with a margin."""
    low, high = points.min(axis=0), points.max(axis=0)
    (left, top), (right, bottom) = np.floor(low - MARGIN), np.ceil(high + MARGIN)
    return (
        slice(max(int(top), 0), min(int(bottom) + 1, shape[0])),
        slice(max(int(left), 0), min(int(right) + 1, shape[1])),
    )


def _is_shape(box: Box, shape: tuple[int, ...], text: str, score: float) -> bool:
    """Tell a body or an organ, which the detector marks as a whole, from text: it is large and reads as no word."""
    side = min(edge.stop - edge.start for edge in box)
    return side > LARGE * min(shape[:2]) and len(text.strip()) < LEAST_LETTERS and score < SURE


def _tell_kind(text: str, known: KnownIdentifiers) -> Identifier:
    return Identifier.KNOWN_WORD if any(known.find(text)) else Identifier.WORD
