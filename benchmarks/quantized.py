"""What INT8 costs networks that were trained: ResNet-50 at 224 pixels and BERT-base at 128 tokens, from scratch.

    nice python -m benchmarks.quantized FOLDER [resnet50] [bert]

The shipped configs on simulated days, with the settings below, so that two cores will do. Each network is fitted once,
on the training days of the validation fold, so that it has seen none of the rows by which the step `optimization` then
judges its forms. A network that is fitted is kept in the folder.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks import figures
from benchmarks.steps import run_steps
from components.optimization import compare, component, subjects
from components.training.core import fit_all
from nightshift.config import parse
from nightshift.contracts import package, tables
from nightshift.contracts.optimization import FILE, Attempt, Latency, Optimization
from nightshift.contracts.package import DecisionRule
from nightshift.data import splits
from nightshift.data.dates import parse_date
from nightshift.data.splits import Days
from nightshift.items.shards import ItemTable
from nightshift.runtime.context import StepContext
from nightshift.tasks.classification.training import ItemRows
from nightshift.tasks.items.networks import FitSetup
from nightshift_testkit import packages
from pipelines import configs

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


def config(name: str) -> dict[str, Any]:
    """Return a shipped config with one network, trained as it is here."""
    document = configs.load(name)
    network = document["task"]["candidates"][name]
    network["parameters"] |= PARAMETERS[name]
    return {
        **document,
        "simulator": SIMULATOR[name],
        "protocol": PROTOCOL,
        "task": {**document["task"], "candidates": {name: network}},
    }


def features(name: str, folder: Path) -> str:
    """Simulate days and make what networks see of them; return the manifest's URI."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config(name)))
    run = run_steps(["ingestion", "features"], str(folder / "config.yaml"), "simulator", DATE, folder)
    return str(run / "features" / "features")


def fit(name: str, uri: str, model: Path) -> None:
    """Fit a network once, and write it as a package."""
    config_model = parse(config(name))
    fold, task = splits.plan(config_model, parse_date(DATE)).validation, config_model.task
    items = ItemTable.read(tables.read_table(uri), Days(fold.train.first, fold.test.last))
    rows = ItemRows(FitSetup(task, "cpu"), splits.plan(config_model, parse_date(DATE)), items)
    sample = rows.sample(fold)
    graph = fit_all(sample, [name]).candidates[name].graph
    manifest = packages.manifest(
        {name: graph},
        made_from=packages.lineage(train=sample.window, validation=rows.holdout(fold, sample).window),
        signature=sample.signature,
        preprocessing=sample.preprocessing,
        decision=DecisionRule(threshold=None),
    )
    package.save(str(model), manifest, {name: graph}, pd.DataFrame())


def judge_form(name: str, folder: Path) -> tuple[Optimization, float]:
    """Return what the step `optimization` finds, and the accuracy of the original, once the network is fitted."""
    uri, model, optimized = features(name, folder), folder / "model", folder / "optimized"
    if not (model / package.MANIFEST).exists():
        fit(name, uri, model)
    flags = {"config": json.dumps(config(name)), "features": uri, "model": str(model), "result": str(optimized)}
    argv = [word for flag, value in flags.items() for word in (f"--{flag}", value)]
    context = StepContext(component.comparison.parser().parse_args(argv))
    compare.body(context)
    subject = subjects.read(context)
    assert subject.original.graph is not None
    accuracy = subject.rows.quality(subject.original.graph.score(subject.rows.inputs))
    return Optimization.read(str(optimized / FILE)), accuracy


def show(name: str, folder: Path) -> None:
    """Print what came of each form."""
    result, accuracy = judge_form(name, folder)
    rows = []
    for attempt in result.attempts:
        if attempt.latencies:
            row, batch = (a.median_ms / b.median_ms for a, b in pairs(result.attempts[0], attempt))
            loss, flipped = effect(attempt)
            ratios = {"original / form, 1 row": row, "32 rows": batch}
            outcome = {"accuracy lost": loss, "decided otherwise": flipped, "verdict": attempt.reason}
            rows.append({"form": attempt.name, **ratios, **outcome})
    note = f"Accuracy of the original {accuracy:.4f} on {result.rows:,} rows that it was not fitted on."
    figures.publish(f"quantized-{name}", rows, note)


def pairs(original: Attempt, form: Attempt) -> Iterator[tuple[Latency, Latency]]:
    """Yield the original's time and a form's, of one row and of many."""
    return zip(original.latencies, form.latencies, strict=True)


def effect(form: Attempt) -> tuple[str, str]:
    """Return what a form loses and decides otherwise, in words."""
    if form.loss is None:
        return "-", "-"
    assert form.flipped is not None
    return f"{form.loss.value:.4f} [{form.loss.low:.4f}, {form.loss.high:.4f}]", f"{form.flipped:.2%}"


if __name__ == "__main__":
    root, *uses = sys.argv[1:]
    for use in uses or PARAMETERS:
        show(use, Path(root, use))
