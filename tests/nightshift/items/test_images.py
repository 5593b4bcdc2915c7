"""Pixels of files; which files become pixels is in tests/components/ingestion/test_hostile.py."""

import numpy as np
import pytest
from PIL import Image

from nightshift.items import images
from nightshift.items.images import UnusableError
from tests.components.pictures import bytes_of, file

LIMIT = 10_000


def test_of_a_phone_s_several_pictures_the_first_is_taken():
    red, blue = (Image.new("RGB", (16, 16), color) for color in ("red", "blue"))
    content = bytes_of(red, "MPO", save_all=True, append_images=[blue])
    taken = images.decode_image(content, LIMIT)
    assert np.array_equal(np.asarray(taken), np.asarray(images.decode_image(bytes_of(red, "JPEG"), LIMIT)))
    assert images.decode_image(content, LIMIT, least=4).size == (4, 4)


def test_a_bomb_is_refused_before_it_takes_memory():
    from nightshift.tasks.images.simulator import _bomb

    for limit in (LIMIT, 89_478_485):
        with pytest.raises(UnusableError, match="decompression_bomb"):
            images.decode_image(_bomb(), limit)


def test_a_square_is_cut_from_the_middle():
    wide = Image.new("L", (30, 10), 0)
    wide.paste(255, (10, 0, 20, 10))
    assert (images.square(wide, 10, 1) == 255).all()
    assert images.square(wide, 10, 3).shape == (10, 10, 3)


def test_a_large_jpeg_is_decoded_no_larger_than_needed():
    content = file("JPEG", size=(640, 640))
    assert images.decode_image(content, 10**6).size == (640, 640)
    assert images.decode_image(content, 10**6, least=64).size == (80, 80)
