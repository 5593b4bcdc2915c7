"""Images to begin with: drawn shapes, or scikit-learn's handwritten digits, as JPEG files by day.

As in `simulator.py`, any day can be made alone and equals that day of any longer run.
"""

import struct
import zlib
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from io import BytesIO

import numpy as np
import numpy.typing as npt
import pandas as pd
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter

from nightshift.config.images import ImageSimulator
from nightshift.tasks.base import ingestion as base

# the purpose of a stream of random numbers
DRAWN, TIMES, CORRUPTION, NEW, ORDER = range(5)
DAY = 86_400  # seconds
IDS_A_DAY = 10**9  # more rows than any day has, so that ids differ between days
SIDE = 32  # pixels of a shape
QUALITY = 95  # of JPEG
SHAPES = ("circle", "cross", "square", "triangle")
UNSEEN = "star"
LARGE = 100_000  # pixels of a side
Labels = Sequence[str | list[str]]


class SimulationTask(base.SimulationTask):
    """Drawn shapes or handwritten digits."""

    columns = ("image_id", "time", "image", "label")

    def day(self, config: ImageSimulator, on: date, labels_due: date | None = None) -> pd.DataFrame:
        drawn, labels = _digits(config, on) if config.digits else _shapes(config, on)
        if config.drifts(on):
            drawn, labels = _drift(config, on, drawn, labels)
        seconds = np.sort(_rng(config, TIMES, on).integers(0, DAY, len(drawn)))
        frame = pd.DataFrame(
            {
                "image_id": on.toordinal() * IDS_A_DAY + np.arange(len(drawn)),
                "time": np.datetime64(on, "us") + seconds.astype("timedelta64[s]"),
                "image": pd.Series([_file(image) for image in drawn], dtype=object),
                "label": pd.Series(labels, dtype=object),
            }
        )
        if labels_due is not None and not config.labels_arrived(on, labels_due):
            frame["label"] = pd.Series([None] * len(frame), dtype=object)
        return _corrupt(frame, config, on) if config.corrupt_share else frame


def _rng(config: ImageSimulator, stream: int, on: date | None) -> np.random.Generator:
    return np.random.default_rng([config.seed, stream, on.toordinal() if on else 0])


def _count(config: ImageSimulator, on: date) -> int:
    return max(1, round(config.items * (config.volume_factor if config.drifts(on) else 1.0)))


def _digits(config: ImageSimulator, on: date) -> tuple[list[Image.Image], list[str]]:
    """Return the digits whose turn it is: every one is dealt once in so many days that they last for."""
    pixels, labels = _all_digits()
    order, count = _rng(config, ORDER, None).permutation(len(labels)), _count(config, on)
    first = on.toordinal() % -(-len(labels) // count) * count
    chosen = order[first : first + count]
    return [Image.fromarray(pixels[number]) for number in chosen], [str(labels[number]) for number in chosen]


@lru_cache(maxsize=1)
def _all_digits() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return scikit-learn's digits, uint8 (n, 8, 8), white on black, and what they are, (n,)."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.round(digits.images * (255 / 16)).astype(np.uint8), digits.target


def _shapes(config: ImageSimulator, on: date) -> tuple[list[Image.Image], Labels]:
    random = _rng(config, DRAWN, on)
    if config.label_share:
        flags = random.random((_count(config, on), len(SHAPES))) < config.label_share
        several = [[SHAPES[number] for number in np.flatnonzero(row)] for row in flags]
        return [_collage(names, random) for names in several], several
    labels = random.choice(SHAPES, _count(config, on)).tolist()
    return [_shape(label, SIDE, random) for label in labels], labels


def _collage(names: Sequence[str], random: np.random.Generator) -> Image.Image:
    """Draw up to four shapes, each in a quarter of an image."""
    image, half = Image.new("RGB", (SIDE, SIDE)), SIDE // 2
    quarters = random.permutation(4).tolist()
    for number, quarter in enumerate(quarters):
        name = names[number] if number < len(names) else ""
        image.paste(_shape(name, half, random), (quarter % 2 * half, quarter // 2 * half))
    return image


def _shape(name: str, side: int, random: np.random.Generator) -> Image.Image:
    """Draw a shape of some color, size, place and angle on a noisy ground of another color; no name is no shape."""
    ground, color = random.integers(0, 100, 3), random.integers(140, 256, 3)
    noise = random.normal(0, 12, (side, side, 3))
    image = Image.fromarray(np.clip(ground + noise, 0, 255).astype(np.uint8))
    radius = side * random.uniform(0.28, 0.42)
    x, y = random.uniform(radius, side - radius, 2)
    draw, fill = ImageDraw.Draw(image), tuple(color.tolist())
    if name == "circle":
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
    elif name:
        draw.polygon(_corners(name, random.uniform(0, 2 * np.pi), radius, (x, y)), fill=fill)
    return image


def _corners(name: str, angle: float, radius: float, center: tuple[float, float]) -> list[tuple[float, float]]:
    """Return a shape's corners: by how far each lies from the center, all at equal angles."""
    inner = {"triangle": [1.0] * 3, "square": [1.0] * 4, "cross": [1, 1, 0.4] * 4, "star": [1, 0.4] * 5}[name]
    if name == "cross":
        turns = np.array([quarter * np.pi / 2 + turn for quarter in range(4) for turn in (-0.3, 0.3, np.pi / 4)])
    else:
        turns = np.arange(len(inner)) * 2 * np.pi / len(inner)
    reach = radius * np.array(inner)
    xs, ys = center[0] + reach * np.cos(turns + angle), center[1] + reach * np.sin(turns + angle)
    return list(zip(xs.tolist(), ys.tolist(), strict=True))


def _drift(
    config: ImageSimulator, on: date, drawn: list[Image.Image], labels: Labels
) -> tuple[list[Image.Image], Labels]:
    unseen = [UNSEEN] if config.label_share else UNSEEN
    random = _rng(config, NEW, on)
    is_new = random.random(len(drawn)) < config.new_class
    images = [
        _shape(UNSEEN, image.width, random).convert(image.mode) if new else image
        for image, new in zip(drawn, is_new, strict=True)
    ]
    drifted_labels = [unseen if new else label for label, new in zip(labels, is_new, strict=True)]
    return [_change(config, image) for image in images], drifted_labels


def _change(config: ImageSimulator, image: Image.Image) -> Image.Image:
    brighter = ImageEnhance.Brightness(image).enhance(config.brightness_factor)
    return brighter.filter(ImageFilter.GaussianBlur(config.blur)) if config.blur else brighter


def _file(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def _corrupt(frame: pd.DataFrame, config: ImageSimulator, on: date) -> pd.DataFrame:
    """Spoil a share of the rows, each in one of the ways that ingestion quarantines, in turn."""
    rng = _rng(config, CORRUPTION, on)
    rows = rng.choice(len(frame), round(config.corrupt_share * len(frame)), replace=False)
    sound = np.setdiff1d(frame.index, rows)
    whole = frame["image"].iloc[sound[0] if len(sound) else 0]
    frame = frame.astype({"time": str})
    spoiled = (
        ("time", "yesterday"),
        ("label", "no such class"),
        ("image", b""),
        ("image", whole[: len(whole) // 2]),
        ("image", b"\0" * 100),
        ("image", _file(Image.new("CMYK", (8, 8)))),
        ("image", _bomb()),
        ("image", whole),
    )
    for turn, (column, value) in enumerate(spoiled):
        for row in rows[turn :: len(spoiled)]:
            frame.loc[row, column] = value
    return frame


def _bomb() -> bytes:
    """Return a PNG file of some 70 bytes whose header says that it has very many pixels."""
    buffer = BytesIO()
    Image.new("L", (8, 8)).save(buffer, "PNG")
    content = buffer.getvalue()
    header = b"IHDR" + struct.pack(">II", LARGE, LARGE) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]
