"""A small use case of scans with reports."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from nightshift.config import parse
from nightshift_image_text.config import ImageTextConfig

CLASSES = ["nodule", "effusion", "fracture"]
SIDE, LENGTH = 12, 8
CONFIG: dict[str, Any] = {
    "name": "scans",
    "label_delay_days": 0,
    "source": {"files": "{date}.parquet"},
    "columns": {
        "event_id": "id",
        "event_time": "time",
        "image": "image",
        "report": "report",
        "label": "findings",
        "group": "patient",
        "study": "study",
        "scanner": "scanner",
        "site": "site",
    },
    "protocol": {"train_days": 3, "test_days": 2},
    "task": {
        "kind": "image-text",
        "classes": CLASSES,
        "side": SIDE,
        "length": LENGTH,
        "candidates": {"clip": {"kind": "clip"}, "images_only": {"kind": "linear"}},
    },
}


def _parse(**changes: dict[str, Any]) -> ImageTextConfig:
    edited = deepcopy(CONFIG)
    for section, fields in changes.items():
        edited[section] = {**edited.get(section, {}), **fields}
    config = parse(edited)
    assert isinstance(config, ImageTextConfig)
    return config


@pytest.fixture(scope="session")
def parsed() -> Callable[..., ImageTextConfig]:
    """The config with some sections' fields replaced, `parsed(task={"side": 8})`."""
    return _parse
