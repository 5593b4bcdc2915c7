"""Rows spoiled on purpose, each in a way that ingestion quarantines."""

import struct
import zlib
from collections.abc import Iterator
from datetime import date
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from nightshift_image_text.config import ImageTextSimulator
from nightshift_image_text.simulation.scans import encode_png
from nightshift_image_text.simulation.studies import CORRUPTION, make_random

LARGE = 100_000  # pixels of a side
SIZE = (16, 16)


def corrupt(frame: pd.DataFrame, config: ImageTextSimulator, on: date) -> pd.DataFrame:
    """Spoil a share of a day's rows, each in one of the ways of `spoil`, in turn."""
    random = make_random(config, CORRUPTION, on.toordinal())
    rows = random.choice(len(frame), round(config.corrupt_share * len(frame)), replace=False)
    sound = np.setdiff1d(frame.index, rows)
    frame = frame.astype({"time": str})
    ways = [*spoil(frame.iloc[sound[0] if len(sound) else 0])]
    for turn, (column, value) in enumerate(ways):
        for row in rows[turn :: len(ways)]:
            frame.at[row, column] = value  # noqa: PD008  # a list is one value
    return frame


def spoil(other: "pd.Series[Any]") -> Iterator[tuple[str, Any]]:
    """Yield columns with values that no row may have, given another row of the day."""
    image = other["image"]
    yield "time", "yesterday"
    yield "findings", ["no such finding"]
    yield "image", None
    yield "report", None
    yield "image", image
    yield "image", image[: len(image) // 2]
    yield "image", b"\0" * 100
    yield "image", encode_png(np.zeros(SIZE, np.uint16))
    yield "image", _animate()
    yield "image", _bomb()
    yield "image", "../elsewhere/scan.png"
    yield "report", " \n"
    yield "report", b"\xff\xfe report"
    yield "study", other["study"]


def _animate() -> bytes:
    """Return a GIF file of two frames."""
    buffer, frames = BytesIO(), [Image.new("L", SIZE, gray) for gray in (0, 255)]
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def _bomb() -> bytes:
    """Return a PNG file of some 70 bytes whose header says that it has very many pixels."""
    content = encode_png(np.zeros(SIZE, np.uint8))
    header = b"IHDR" + struct.pack(">II", LARGE, LARGE) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]
