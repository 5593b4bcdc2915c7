"""A small use case with texts that nobody labels, and a night's steps on them."""

import json
from argparse import Namespace
from copy import deepcopy
from pathlib import Path
from typing import Any

from components.deployment import __main__ as deployment
from components.drift import __main__ as drift
from components.evaluation import __main__ as evaluation
from components.features import __main__ as features
from components.ingestion import __main__ as ingestion
from components.scoring import __main__ as scoring
from components.training import __main__ as training
from nightshift.config import parse
from nightshift.runtime.context import StepContext
from nightshift_llm.config import LanguageTaskConfig
from tests.components.states import state

CONFIG: dict[str, Any] = {
    "name": "tales",
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "text_id", "event_time": "time", "text": "text", "source": "source"},
    "simulator": {"items": 24, "words": 30},
    "protocol": {"train_days": 3, "test_days": 2},
    "drift": {"window_days": 2, "min_rows": 20},
    "task": {
        "kind": "language-modeling",
        "length": 64,
        "candidates": {
            "llama": {
                "kind": "llama",
                "parameters": {"depth": 1, "width": 32, "heads": 2, "epochs": 2, "batch_size": 8, "threads": 1},
            }
        },
    },
    "evaluation": {"min_rows": 20},
}
STEPS = {
    "ingestion": (ingestion, {"events": "events.json"}),
    "features": (features, {"events": "events.json", "features": "features.json"}),
    "training": (training, {"features": "features.json", "model": "model"}),
    "evaluation": (evaluation, {"features": "features.json", "model": "model", "evaluation": "evaluation"}),
    "scoring": (scoring, {"features": "features.json", "model": "model", "scores": "scores"}),
    "drift": (drift, {"features": "features.json", "scores": "scores", "drift": "drift"}),
    "deployment": (
        deployment,
        {
            "features": "features.json",
            "model": "model",
            "evaluation": "evaluation",
            "drift": "drift",
            "deployment": "deployment.json",
        },
    ),
}


def config(**task: Any) -> dict[str, Any]:
    """The config with some fields of its task replaced."""
    edited = deepcopy(CONFIG)
    edited["task"] |= task
    return edited


def task(**fields: Any) -> LanguageTaskConfig:
    parsed = parse(config(**fields)).task
    assert isinstance(parsed, LanguageTaskConfig)
    return parsed


def chat(*messages: tuple[str, str]) -> str:
    """A chat as a text, of roles and what they say."""
    return json.dumps([{"role": role, "content": content} for role, content in messages])


class Night:
    """The steps of a night, in a folder of a workspace that keeps what nights share."""

    def __init__(self, workspace: Path, day: str, config: dict[str, Any], data: str = "simulator") -> None:
        self.workspace, self.folder, self.day, self.config, self.data = workspace, workspace / day, day, config, data

    def run(self, *steps: str) -> None:
        """Run some steps, by default all of them."""
        for name in steps or STEPS:
            module, uris = STEPS[name]
            module.body(self.context(**uris))

    def context(self, **uris: str) -> StepContext:
        flags = {name: str(self.folder / uri) for name, uri in uris.items()}
        shared = {"config": json.dumps(self.config), "date": self.day, "state": state(self.workspace)}
        shared |= {"data": self.data, "device": "cpu"}
        return StepContext(Namespace(**shared, **flags, run=self.day, executor_input={}))
