"""Burned-in words: drawn, blacked out, and read again by another reader."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from benchmarks import figures
from benchmarks.deidentification import tesseract
from benchmarks.deidentification.shares import INTERVAL, share
from nightshift_image_text.deidentification.corpus.identities import draw_identity, read_names
from nightshift_image_text.deidentification.corpus.scans import Line, Pixels, Scan, draw_scan
from nightshift_image_text.deidentification.known import KnownIdentifiers
from nightshift_image_text.deidentification.pixels import clean_pixels

CHUNK = 20  # scans whose words one process of tesseract reads
NOBODY = KnownIdentifiers("")


@dataclass(frozen=True)
class LinePictures:
    """A line before and after the scan was cleaned.

    Attributes:
        line: as it was drawn.
        before, after: its part of the scan.
    """

    line: Line
    before: Image.Image
    after: Image.Image


def measure(studies: int, processes: int, minutes: float) -> Iterator[Counter[str]]:
    """Return the counts of chunks of studies, as they are done, until the time is up."""
    end = time.monotonic() + 60 * minutes
    starts = range(0, studies, CHUNK)
    with ProcessPoolExecutor(processes) as pool:
        for counts in pool.map(measure_chunk, starts, [min(CHUNK, studies - start) for start in starts]):
            yield counts
            if time.monotonic() > end:
                pool.shutdown(wait=False, cancel_futures=True)
                return


def measure_chunk(start: int, size: int) -> Counter[str]:
    """Return the counts of some studies."""
    counts: Counter[str] = Counter()
    readings: list[LinePictures] = []
    for number in range(start, start + size):
        rng = np.random.default_rng(number)
        scan = draw_scan(rng, draw_identity(rng, read_names()))
        began = time.process_time()
        cleaned, _ = clean_pixels(scan.pixels, NOBODY)
        counts["cleaning ms"] += round(1000 * (time.process_time() - began))
        counts += _count_masks(scan, cleaned)
        readings += [
            LinePictures(line, *(tesseract.cut_line(pixels, line) for pixels in (scan.pixels, cleaned)))
            for line in scan.lines
        ]
    return counts + _count_words(readings)


def _count_masks(scan: Scan, cleaned: Pixels) -> Counter[str]:
    is_masked, is_plain = cleaned != scan.pixels, not scan.lines
    is_word, is_near = (_mark_lines(scan, distance) for distance in (0, 1 / 2))
    return Counter(
        {
            "scans": 1,
            "lines": len(scan.lines),
            "pixels beside words": int((~is_word).sum()),
            "masked beside words": int((is_masked & ~is_word).sum()),
            "pixels far from words": int((~is_near).sum()),
            "masked far from words": int((is_masked & ~is_near).sum()),
            "scans without words": int(is_plain),
            "masked without words": int(is_plain and is_masked.any()),
        }
    )


def _mark_lines(scan: Scan, distance: float) -> npt.NDArray[np.bool_]:
    """Return which pixels lie in a line or near it, by a share of its height."""
    is_marked = np.zeros(scan.pixels.shape, bool)
    for left, top, right, bottom in (line.box for line in scan.lines):
        near = int(distance * (bottom - top))
        is_marked[max(top - near, 0) : bottom + near, max(left - near, 0) : right + near] = True
    return is_marked


def _count_words(readings: list[LinePictures]) -> Counter[str]:
    texts = tesseract.read([image for reading in readings for image in (reading.before, reading.after)])
    counts: Counter[str] = Counter()
    for reading, before, after in zip(readings, texts[::2], texts[1::2], strict=True):
        for word in tesseract.list_words(reading.line):
            is_readable, is_left = tesseract.is_read(word, before), tesseract.is_read(word, after)
            counts += Counter(
                {
                    "words": 1,
                    "words read before": int(is_readable),
                    "words read after": int(is_left),
                    "small words read before": int(is_readable and reading.line.size < 12),
                    "small words read after": int(is_left and reading.line.size < 12),
                }
            )
    return counts


def publish(counts: Counter[str], studies: int) -> None:
    """Print, and with RECORD=1 record, the shares."""
    shares = (
        ("words that tesseract reads, removed", "words read before", "words read after"),
        ("of them below 12 pixels", "small words read before", "small words read after"),
        ("all words, not read afterwards", "words", "words read after"),
    )
    rows = [
        {"what": title, **share("of", counts[total] - counts[left], counts[total], "count")}
        for title, total, left in shares
    ]
    plain = share("of", counts["masked without words"], counts["scans without words"], "count")
    rows.append({"what": "scans without words, changed", **plain})
    masks = (
        ("pixels half a line's height or more from words, blacked out", "far from"),
        ("all pixels beside words, blacked out", "beside"),
    )
    rows += [
        # neighbors are not independent: no interval
        {
            "what": title,
            **share("of", counts[f"masked {where} words"], counts[f"pixels {where} words"], "count"),
            INTERVAL: "",
        }
        for title, where in masks
    ]
    cost = counts["cleaning ms"] / max(counts["scans"], 1)
    note = (
        f"{counts['scans']:,} of {studies:,} scans in the time given, {counts['lines']:,} lines of text. "
        f"Cleaning a scan of 256 to 512 pixels a side took {cost:.0f} ms of CPU."
    )
    figures.publish("deidentification-pixels", rows, note)
