"""Pixels as the pictures of a report."""

import base64
from io import BytesIO

import numpy as np
from PIL import Image

from nightshift.contracts.section import Picture
from nightshift.items.images import Pixels

SIDE = 112  # pixels of an image in a report


def enlarge(pixels: Pixels) -> Pixels:
    """Return an image, uint8 (side, side, channels), as a report shows it: uint8 (SIDE, SIDE, 3)."""
    image = Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).convert("RGB")
    method = Image.Resampling.NEAREST if len(pixels) < SIDE else Image.Resampling.BOX
    return np.asarray(image.resize((SIDE, SIDE), method))


def picture(pixels: Pixels, caption: str, note: str) -> Picture:
    """Return pixels, uint8 (height, width, 3), as a picture of a report; see `Picture`."""
    with BytesIO() as content:
        Image.fromarray(pixels).save(content, "png", optimize=True)
        return Picture(png=base64.b64encode(content.getvalue()).decode(), caption=caption, note=note)
