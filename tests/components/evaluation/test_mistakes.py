"""What a model gets wrong, as people look at it."""

import base64
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from nightshift.contracts.section import Pictures, TableBlock
from nightshift.items.drawn import SIDE
from nightshift.tasks.classification.mistakes import Answers
from nightshift.tasks.images.mistakes import PARTS, importance, lit, pictures
from nightshift.tasks.texts.mistakes import table

CLASSES = ["cat", "dog"]
# a mistake, a right answer, a surer mistake
SCORES = np.array([[0.3, 0.7], [0.9, 0.1], [0.8, 0.2]], np.float32)


def answered(inputs: np.ndarray, scores: np.ndarray = SCORES) -> Answers:
    rows = pd.DataFrame({"event_id": ["a", "b", "c"]})
    return Answers(rows, inputs, np.array([0, 0, 1]), scores, CLASSES)


def by_its_corner(pixels: np.ndarray) -> np.ndarray:
    """A dog, the surer the brighter the first pixel."""
    dog = pixels[:, 0, 0, 0] / 255
    return np.stack([1 - dog, dog], axis=1).astype(np.float32)


def test_the_surest_mistake_comes_first_and_what_is_right_not_at_all():
    assert list(answered(np.zeros((3, 1))).surest(most=5)) == [2, 0]
    assert list(answered(np.zeros((3, 1))).surest(most=1)) == [2]


@pytest.mark.parametrize("side", [8, 28, 150])
def test_the_part_that_decides_is_lit_and_the_others_are_dark(side):
    pixels = np.zeros((side, side, 3), np.uint8)
    pixels[0, 0] = 255
    weights = importance(pixels, by_its_corner)
    assert weights[0, 0] == 1
    assert weights.sum() == 1
    drawn = lit(np.full((side, side, 3), 200, np.uint8), weights)
    part = SIDE // PARTS
    assert (drawn[:part, :part] == 200).all()
    assert drawn[part:].max() < 100


def test_an_image_of_which_no_part_decides_alone_is_dark():
    assert not importance(np.zeros((8, 8, 1), np.uint8), by_its_corner).any()


@pytest.mark.parametrize("channels", [1, 3])
def test_each_mistake_is_a_picture_of_what_was_seen_and_what_decided(channels):
    inputs = np.random.default_rng(0).integers(0, 256, (3, 16, 16, channels), dtype=np.uint8)
    block = pictures(answered(inputs), by_its_corner)
    assert isinstance(block, Pictures)
    assert [(picture.caption, picture.note) for picture in block.pictures] == [
        ("dog, taken for cat (80%)", "c"),
        ("cat, taken for dog (70%)", "a"),
    ]
    image = Image.open(BytesIO(base64.b64decode(block.pictures[0].png)))
    assert (image.format, image.size, image.mode) == ("PNG", (2 * SIDE, SIDE), "RGB")


def test_a_text_is_told_as_the_model_saw_it():
    library = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "night": 2, "shift": 3}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.add_special_tokens(["[PAD]"])
    inputs = answered(np.array([[2, 3, 0], [2, 2, 0], [3, 1, 0]], np.int32))
    block = table(inputs, library.to_str().encode())
    assert isinstance(block, TableBlock)
    assert [row.cells for row in block.rows] == [
        ["c", "dog", "cat", pytest.approx(0.8), "shift [UNK]"],
        ["a", "cat", "dog", pytest.approx(0.7), "night shift"],
    ]
    hashed = table(inputs, b"")
    assert isinstance(hashed, TableBlock)
    assert {row.cells[-1] for row in hashed.rows} == {"(hashes of words)"}


def test_a_model_without_a_mistake_has_none_to_show():
    right = answered(np.zeros((3, 8, 8, 1), np.uint8), np.array([[1, 0], [1, 0], [0, 1]], np.float32))
    assert pictures(right, by_its_corner) is None
    assert table(right, b"") is None
