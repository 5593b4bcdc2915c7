"""Made-up scans with burned-in words: of several sizes, fonts and gray levels, in corners and elsewhere."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from nightshift_image_text.deidentification.corpus.identities import Identity

Gray = npt.NDArray[np.float64]
Pixels = npt.NDArray[Any]
Box = tuple[int, int, int, int]  # left, top, right, bottom

SIDES = (256, 320, 384, 448, 512)
SIZES = (9, 25)  # pixels of a font
FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSerif", "STIXGeneral", "cmss10")
LEAST_CONTRAST = 70  # gray levels between words and their ground
EDGE = 4  # pixels between words in a corner and the edge
TRIES = 40  # at a place for a line that meets no other
NO_WORDS = 0.2  # share of scans without any
DEEP = 0.2  # share of scans of 12 bits
PAD = 2  # pixels around lines that do not touch


@dataclass(frozen=True)
class BurnedLine:
    """Words burned in beside each other.

    Attributes:
        text: as it was drawn.
        box: around its ink.
        size: of its font, in pixels.
    """

    text: str
    box: Box
    size: int


@dataclass(frozen=True)
class Scan:
    """An image and its words.

    Attributes:
        pixels: (rows, columns), uint8, or uint16 of 12 bits.
        lines: drawn into it.
    """

    pixels: Pixels
    lines: tuple[BurnedLine, ...]


def draw_scan(rng: np.random.Generator, identity: Identity) -> Scan:
    """Return a scan, most with one to four lines about the patient."""
    side = int(rng.choice(SIDES))
    ground = _draw_body(rng, side, int(rng.choice(SIDES)))
    lines: list[BurnedLine] = []
    texts = list_lines(identity) if rng.random() > NO_WORDS else []
    for text in rng.permutation(texts)[: rng.integers(1, 5)]:
        if line := _burn(rng, ground, str(text), lines):
            lines.append(line)
    is_deep = rng.random() < DEEP
    pixels = (ground * 16).astype(np.uint16) if is_deep else ground.astype(np.uint8)
    return Scan(pixels, tuple(lines))


def list_lines(identity: Identity) -> list[str]:
    """Return what scanners write into images about a patient."""
    family, forename = identity.family, identity.forename
    return [
        f"{family.upper()}^{forename.upper()}",
        f"{family}, {forename}",
        f"{forename} {family} {identity.sex}",
        f"ID: {identity.record}",
        f"MRN {identity.record}",
        f"Acc {identity.accession}",
        f"DOB {identity.born:%m/%d/%Y}",
        f"{identity.born:%Y-%m-%d} {identity.sex}",
        identity.hospital,
        identity.hospital.upper(),
        f"Dr. {' '.join(identity.physician)}",
        f"{identity.studied:%d %b %Y} {family.upper()}",
    ]


def _draw_body(rng: np.random.Generator, rows: int, columns: int) -> Gray:
    """Return gray levels like those of a scan: tissue in a body on black, with bones, edges and noise."""
    y, x = np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j]
    inside = _blur(rng, rows, columns, 4) * 0.25 + (x / rng.uniform(0.6, 1.1)) ** 2 + (y / rng.uniform(0.6, 1.1)) ** 2
    tissue = 70 + 35 * _blur(rng, rows, columns, 6) + 18 * _blur(rng, rows, columns, 24)
    image = np.where(inside < 1, tissue, rng.uniform(0, 25))
    for _ in range(rng.integers(2, 9)):
        image += rng.uniform(-50, 80) * _draw_organ(rng, x, y) * (inside < 1)
    ribs = np.abs(np.sin(rng.uniform(4, 12) * (y + rng.uniform(-1, 1) * x**2))) > 0.95
    image += rng.choice([0, 40]) * ribs * (inside < 0.8)
    return (image + rng.normal(0, rng.uniform(1, 9), image.shape)).clip(0, 255)


def _draw_organ(rng: np.random.Generator, x: Gray, y: Gray) -> Gray:
    column, row, width, height = *rng.uniform(-0.7, 0.7, 2), *rng.uniform(0.05, 0.4, 2)
    organ: Gray = (((x - column) / width) ** 2 + ((y - row) / height) ** 2 < 1).astype(float)
    return organ


def _blur(rng: np.random.Generator, rows: int, columns: int, cells: int) -> Gray:
    """Return smooth noise of so many cells a side, of standard deviation 1."""
    coarse = Image.fromarray(rng.normal(size=(cells, cells)).astype(np.float32))
    return np.asarray(coarse.resize((columns, rows), Image.Resampling.BICUBIC), dtype=float)


def _burn(rng: np.random.Generator, ground: Gray, text: str, others: list[BurnedLine]) -> BurnedLine | None:
    """Draw a line into a scan, in place; nothing where it does not fit."""
    size = int(rng.integers(*SIZES))
    font = _load_font(str(rng.choice(FONTS)), size)
    left, top, right, bottom = (int(edge) for edge in font.getbbox(text))
    width, height = right - left, bottom - top
    for _ in range(TRIES):
        box = _position(rng, ground.shape, width, height)
        if box and not any(_meet(box, other.box) for other in others):
            _ink(rng, ground, box, _draw_ink(text, font, (left, top, width, height)))
            return BurnedLine(text, box, size)
    return None


def _position(rng: np.random.Generator, shape: tuple[int, ...], width: int, height: int) -> Box | None:
    """Return a place for a line: of three lines two stand at an edge."""
    rows, columns = shape[0] - height - EDGE, shape[1] - width - EDGE
    if rows <= EDGE or columns <= EDGE:
        return None
    left, top = int(rng.integers(EDGE, columns + 1)), int(rng.integers(EDGE, rows + 1))
    if rng.random() < 2 / 3:
        left, top = int(rng.choice([EDGE, columns])), int(rng.choice([EDGE, EDGE + 2 * height, rows, rows - height]))
    return left, max(top, 0), left + width, max(top, 0) + height


def _meet(box: Box, other: Box) -> bool:
    return not (
        box[2] + PAD < other[0] or other[2] + PAD < box[0] or box[3] + PAD < other[1] or other[3] + PAD < box[1]
    )


def _draw_ink(text: str, font: ImageFont.FreeTypeFont, corner: Box) -> Gray:
    left, top, width, height = corner
    image = Image.new("L", (width, height))
    ImageDraw.Draw(image).text((-left, -top), text, fill=255, font=font)
    return np.asarray(image, dtype=float) / 255


def _ink(rng: np.random.Generator, ground: Gray, box: Box, ink: Gray) -> None:
    """Mix a line's ink into the ground, lighter or darker than it by at least the least contrast."""
    left, top, right, bottom = box
    part = ground[top:bottom, left:right]
    light, dark = np.percentile(part, 90) + LEAST_CONTRAST, np.percentile(part, 10) - LEAST_CONTRAST
    is_dark = dark > 0 and (light > 255 or rng.random() < 0.5)
    level = rng.uniform(0, dark) if is_dark else rng.uniform(min(light, 255), 255)
    part += ink * (level - part)


@cache
def _load_font(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"), size)
