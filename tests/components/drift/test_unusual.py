"""What is shown of a day's images beside how far they have moved."""

import numpy as np
import pandas as pd

from components.common.contracts.section import Pictures
from components.drift import unusual
from components.drift.unusual import SHOWN


def test_the_images_furthest_from_the_reference_come_first_and_the_nearest_are_beside_them():
    random = np.random.default_rng(0)
    reference, newest = random.normal(size=(200, 4)), random.normal(size=(40, 4))
    newest[7] += 100
    newest[9] = 0  # in the middle of the reference
    # every second image has an embedding
    rows = pd.DataFrame(
        {"event_id": [f"image {each}" for each in range(0, 80, 2)], "predicted": "cat"}, range(0, 80, 2)
    )
    pixels = random.integers(0, 256, (80, 8, 8, 1), dtype=np.uint8)
    least, most = unusual.pictures(rows, pixels, (reference, newest))
    assert isinstance(least, Pictures)
    assert isinstance(most, Pictures)
    assert (least.pictures[0].note, least.pictures[0].caption) == ("image 14", "taken for cat")
    assert most.pictures[0].note == "image 18"
    assert len(least.pictures) == len(most.pictures) == SHOWN
    assert not {each.note for each in least.pictures} & {each.note for each in most.pictures}


def test_few_images_are_shown_as_both():
    rows = pd.DataFrame({"event_id": [1, 2], "predicted": ["cat", "dog"]})
    pixels = np.zeros((2, 8, 8, 3), np.uint8)
    least, most = unusual.pictures(rows, pixels, (np.eye(30, 2), np.array([[0.0, 0.0], [5.0, 5.0]])))
    assert isinstance(least, Pictures)
    assert isinstance(most, Pictures)
    assert [each.note for each in least.pictures] == ["2", "1"]
    assert [each.note for each in most.pictures] == ["1", "2"]
