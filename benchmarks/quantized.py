"""What INT8 costs networks that were trained: ResNet-50 at 224 pixels and BERT-base at 128 tokens, from scratch.

    nice python -m benchmarks.quantized FOLDER [resnet50] [bert]

The shipped configs on simulated days, with the settings below, so that two cores will do. Each network is fitted once, on
the training days of the validation fold, so that it has seen none of the rows on which the step `optimization` then judges
its forms. What is done is kept in the folder, and not done again.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.steps import run_steps
from components.classes import preprocessing
from components.classes.shards import Items
from components.common import splits
from components.common.config import Config, parse
from components.common.contracts import package, tables
from components.common.contracts.artifact import LabeledWindow
from components.common.contracts.optimization import FILE, Attempt, Optimization
from components.common.contracts.package import DecisionRule, ModelPackage
from components.common.splits import Days, Plan
from components.optimization.__main__ import body, parser
from components.training import classes
from components.training.networks import Setting
from pipelines import configs
from tests import packages

DATE = "2026-03-31"
PROTOCOL = {"train_days": 14, "test_days": 7}
SIMULATOR: dict[str, dict[str, Any]] = {
    "resnet50": {"items": 220},
    # usual texts are of 14 words; now and then none of them tells the topic, and whatever a network says is a guess
    "bert": {"items": 220, "drift_from": "2026-01-01", "length_factor": 2.0},
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "resnet50": {"epochs": 2, "batch_size": 16, "learning_rate": 0.001, "label_smoothing": 0.0, "threads": 1},
    "bert": {"epochs": 2, "batch_size": 16, "threads": 1},
}
console = Console(width=130)


def config(name: str) -> dict[str, Any]:
    """Return a shipped config with one network, trained as it is here."""
    found = configs.load(name)
    network = found["task"]["candidates"][name]
    network["parameters"] |= PARAMETERS[name]
    return {
        **found,
        "simulator": SIMULATOR[name],
        "protocol": PROTOCOL,
        "task": {**found["task"], "candidates": {name: network}},
    }


def features(name: str, folder: Path) -> str:
    """Simulate days and make what networks see of them; return the manifest's URI."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config(name)))
    run = run_steps(["ingestion", "features"], str(folder / "config.yaml"), "simulator", DATE, folder)
    return str(run / "features" / "features")


def fit(name: str, uri: str, model: Path) -> None:
    """Fit a network once, and write it as a package."""
    given = parse(config(name))
    plan, table = splits.plan(given, splits.parse_date(DATE)), tables.read_table(uri)
    fold, task = plan.validation, given.classes
    items = Items.of(table, Days(fold.train.first, fold.test.last))
    seen, unseen = items.seen(fold), items.unseen(fold)
    graph = classes.fit_all(Setting(task, "cpu"), items, seen, [name]).candidates[name].graph
    lineage = packages.lineage(
        train=LabeledWindow(first=fold.train.first, last=fold.train.last, rows=len(seen)),
        validation=LabeledWindow(first=fold.test.first, last=fold.test.last, rows=len(unseen)),
    )
    manifest = packages.manifest(
        {name: graph},
        made_from=lineage,
        signature=classes.FAMILIES[type(task)].signature(task),
        preprocessing=preprocessing.of(task),
        decision=DecisionRule(threshold=None),
    )
    package.save(str(model), manifest, {name: graph}, pd.DataFrame())


def judged(name: str, folder: Path) -> Optimization:
    """Return what the step `optimization` finds, once the network is fitted."""
    uri, model, optimized = features(name, folder), folder / "model", folder / "optimized"
    if not (model / package.MANIFEST).exists():
        fit(name, uri, model)
    if not (optimized / package.MANIFEST).exists():
        flags = {"config": json.dumps(config(name)), "features": uri, "model": str(model), "optimized": str(optimized)}
        body(parser().parse_args([word for flag, value in flags.items() for word in (f"--{flag}", value)]))
    return Optimization.read(str(optimized / FILE))


if __name__ == "__main__":
    place, *asked = sys.argv[1:]
    for each in asked or PARAMETERS:
        print(judged(each, Path(place, each)).model_dump_json(indent=1))
