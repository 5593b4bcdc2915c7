"""A small use case with scans and their reports; its night is `tests.components.tales.Night`."""

from copy import deepcopy
from typing import Any

from nightshift.config import parse
from nightshift_image_text.config import ImageTextTaskConfig

SMALL = {"epochs": 2, "batch_size": 32, "width": 16, "layers": 1, "heads": 2, "threads": 1}
CONFIG: dict[str, Any] = {
    "name": "scans",
    "label_delay_days": 0,
    "source": {"files": "{date}.parquet"},
    "columns": {
        "event_id": "image_id",
        "event_time": "time",
        "image": "image",
        "report": "report",
        "label": "findings",
        "group": "patient",
        "study": "study",
        "scanner": "scanner",
        "site": "site",
    },
    "simulator": {"items": 40},
    "protocol": {"train_days": 3, "test_days": 2},
    "drift": {"window_days": 2, "min_rows": 20},
    "task": {
        "kind": "image-text",
        "classes": ["effusion", "enlarged", "fracture", "nodule"],
        "side": 32,
        "length": 16,
        "vocabulary": 256,
        "candidates": {"pairs": {"kind": "clip", "parameters": SMALL}, "frozen_text": {"kind": "linear"}},
    },
    "evaluation": {"min_rows": 20},
}


def config(**task: Any) -> dict[str, Any]:
    """The config with some fields of its task replaced."""
    edited = deepcopy(CONFIG)
    edited["task"] |= task
    return edited


def task(**fields: Any) -> ImageTextTaskConfig:
    parsed = parse(config(**fields)).task
    assert isinstance(parsed, ImageTextTaskConfig)
    return parsed
