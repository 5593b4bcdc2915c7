"""What is left of a patient's known identifiers after cleaning; a row where something is left is quarantined."""

from pydicom import Dataset

from nightshift_image_text.deidentification.counts import Counts
from nightshift_image_text.deidentification.known import KnownIdentifiers, spell, walk
from nightshift_image_text.deidentification.pixels import Pixels, list_frames, read_lines


def find_left(
    known: KnownIdentifiers, header: Dataset | None = None, text: str = "", pixels: Pixels | None = None
) -> Counts:
    """Return how many known identifiers of each kind are still there; empty where nothing is left.

    Args:
        known: read from the header before it was cleaned.
        header: cleaned.
        text: a cleaned report.
        pixels: cleaned; they are read once more, which takes as long as cleaning them.
    """
    values = [spell(element) for element in walk(header)] if header is not None else []
    lines = [line for frame in list_frames(pixels) for _, line in read_lines(frame)] if pixels is not None else []
    return Counts(kind for value in (text, *values, *lines) for kind, _, _ in known.find(value))
