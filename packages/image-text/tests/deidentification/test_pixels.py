"""Burned-in words as `rapidocr` finds them; loading its models takes seconds."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from nightshift_image_text.deidentification.corpus.identities import draw_identity, read_names
from nightshift_image_text.deidentification.corpus.scans import draw_scan
from nightshift_image_text.deidentification.counts import Identifier
from nightshift_image_text.deidentification.known import KnownIdentifiers
from nightshift_image_text.deidentification.pixels import Pixels, clean_pixels
from nightshift_image_text.deidentification.remains import find_left

KNOWN = KnownIdentifiers("1", names=frozenset(["Larsen^Anna"]))
pytestmark = pytest.mark.slow


def draw(text: str, side: int = 192) -> Pixels:
    image = Image.fromarray(np.random.default_rng(0).normal(60, 8, (side, side)).clip(0, 255).astype(np.uint8))
    ImageDraw.Draw(image).text((6, 6), text, fill=230, font=ImageFont.load_default(14))
    return np.asarray(image)


@pytest.mark.parametrize(
    ("shape", "kind", "scale"), [((192, 192), "u1", 1), ((1, 192, 192), "i2", 16), ((192, 192, 3), "u1", 1)]
)
def test_words_are_blacked_out_in_every_form_of_pixels(shape: tuple[int, ...], kind: str, scale: int) -> None:
    gray = draw("LARSEN^ANNA F").astype(kind) * scale - (1000 if kind == "i2" else 0)
    pixels = np.broadcast_to(gray[..., None] if shape[-1] == 3 else gray, shape)
    cleaned, counts = clean_pixels(pixels, KNOWN)
    assert (cleaned.shape, cleaned.dtype) == (pixels.shape, pixels.dtype)
    assert counts == {Identifier.KNOWN_WORD: 1}
    assert find_left(KNOWN, pixels=pixels)[Identifier.NAME] > 0
    assert not find_left(KNOWN, pixels=cleaned)


def test_scans_without_words_stay_as_they_are() -> None:
    scans = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scans.append(draw_scan(rng, draw_identity(rng, read_names())))
    plain = [scan.pixels for scan in scans if not scan.lines][:3]
    assert len(plain) == 3
    assert all(np.array_equal(clean_pixels(pixels, KNOWN)[0], pixels) for pixels in plain)
