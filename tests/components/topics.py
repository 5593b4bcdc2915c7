"""A small use case with texts: topics, made by the simulator; `tests.components.pictures` runs the steps."""

from copy import deepcopy
from pathlib import Path
from typing import Any

from components.common.config import parse
from components.common.config.classes import Texts
from tests.components import pictures

CONFIG: dict[str, Any] = {
    "name": "topics",
    "label_delay_days": 0,
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "text_id", "event_time": "time", "text": "text", "label": "label"},
    "simulator": {"items": 24},
    "protocol": {"train_days": 3, "test_days": 2},
    "task": {
        "kind": "text-classification",
        "classes": ["finance", "health", "sports", "travel"],
        "length": 16,
        "vocabulary": 512,
        "candidates": {
            "words": {"kind": "tfidf", "parameters": {"C": 10.0}},
            "bert": {
                "kind": "bert",
                "parameters": {"epochs": 2, "batch_size": 24, "width": 16, "heads": 2, "layers": 1, "threads": 1},
            },
        },
    },
    "evaluation": {"min_rows": 20, "min_accuracy": 0.0},
}


def config(**task: Any) -> dict[str, Any]:
    """The config with some fields of its task replaced."""
    found = deepcopy(CONFIG)
    found["task"] |= task
    return found


def task(**fields: Any) -> Texts:
    found = parse(config(**fields)).classes
    assert isinstance(found, Texts)
    return found


def made(folder: Path, given: dict[str, Any] = CONFIG) -> None:
    """Ingest the simulated days and make their shards."""
    pictures.ingest(folder, given)
    pictures.feature(folder, given)
