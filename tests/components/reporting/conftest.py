"""A run's folder in the formats that the steps write."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.reporting import component
from components.reporting.__main__ import body
from nightshift.contracts.drift import DriftReport
from nightshift.contracts.evaluation import Evaluation
from nightshift.contracts.profile import Operation, Phase, PhaseName, Profile, ScoringSpeed
from nightshift.contracts.section import (
    Axis,
    Bars,
    Chart,
    Code,
    Estimate,
    Fact,
    FoldedBlocks,
    Link,
    Links,
    Notice,
    Row,
    Section,
    SectionOutcome,
    Series,
    TableColumn,
    Text,
    write_section,
)
from nightshift.contracts.section import TableBlock as Grid
from nightshift.contracts.tables import Partition, Table, write_table
from nightshift.contracts.verdict import Decision, Measure, Opponent, Verdict
from nightshift.runtime.context import StepContext
from nightshift.storage import write_bytes, write_json
from nightshift_testkit import packages
from tests.components.states import state

CONFIGS = Path(__file__).parents[3] / "pipelines" / "configs"
ARTIFACTS = {
    "events": "ingestion",
    "features": "features",
    "model": "training",
    "profile": "profiling",
    "evaluation": "evaluation",
    "scores": "scoring",
    "drift": "drift",
    "deployment": "deployment",
}
SCORES = {
    "xgboost": (0.8621, 0.6391, 0.2729),
    "mlp": (0.8652, 0.6433, 0.2857),
    "logistic_regression": (0.8710, 0.6057, 0.2914),
    "random_forest": (0.8671, 0.6579, 0.2871),
}
SELECTED = "random_forest"
INPUTS = [
    "amount",
    "is_weekend",
    "is_night",
    *(f"customer_{what}_{days}d" for days in (1, 7, 30) for what in ("count", "mean_amount")),
    *(f"terminal_{what}_{days}d" for days in (1, 7, 30) for what in ("count", "positive_rate")),
]

WHY = "Average precision 0.658 against 0.635 of champion version 2, trained on older days."
SIGNALS = [f"Signal {number} is where it was." for number in range(1, 6)]


@dataclass(frozen=True)
class Sample:
    """A run on disk, and the flags under which its report is made."""

    runs: Path
    run: str
    flags: dict[str, str]
    uris: dict[str, str]
    executor_input: dict[str, Any]

    @property
    def folder(self) -> Path:
        return self.runs / self.run

    @property
    def argv(self) -> list[str]:
        words = [word for name, value in self.flags.items() for word in (f"--{name}", value)]
        return [*words, "--executor-input", json.dumps(self.executor_input)]

    def file(self, name: str) -> Path:
        """The file of an artifact, `<artifact>/<path>` inside a folder."""
        artifact, *path = name.split("/")
        return Path((self.uris | self.flags)[artifact], *path)

    def report(self) -> tuple[dict[str, Any], str]:
        """Run the step; return its summary and its page."""
        body(StepContext(component.reporting.parser().parse_args(self.argv)))
        return json.loads(self.file("summary").read_text()), self.file("report").read_text()

    def show(self, artifact: str, **values: Any) -> None:
        """Give an artifact another section."""
        write_section(self.uris[artifact], Section(**{"title": artifact.capitalize(), "weight": 1} | values))

    def change(self, name: str, **values: Any) -> None:
        """Change top-level values of a JSON file."""
        path = self.folder / name if name == "run.json" else self.file(name)
        path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    """The Handbook's baseline week, with a champion that is beaten and one input that drifted."""
    return make_run(tmp_path / "runs", "handbook-training-2018-08-14-1")


@pytest.fixture
def new_run() -> Callable[[Path, str], Sample]:
    """Makes further runs."""
    return make_run


def make_run(runs: Path, run: str) -> Sample:
    folder = runs / run
    config = yaml.safe_load((CONFIGS / "handbook.yaml").read_text())
    uris = {name: str(folder / step / name) for name, step in ARTIFACTS.items()}
    outputs = {name: str(folder / "reporting" / name) for name in ("summary", "report", "overview")}
    head = {"config": json.dumps(config), "date": "2018-08-14", "device": "cpu", "data": "/data/handbook/raw"}
    write_tables(uris, folder)
    write_model(uris["model"])
    write_profile(uris["profile"])
    write_evaluation(uris["evaluation"])
    write_json(uris["scores"] + "/scores.json", {"name": "scores", "partitions": [], "details": {}})
    write_drift(uris["drift"])
    write_deployment(uris["deployment"])
    write_sections(uris, folder)
    for step in ARTIFACTS.values():
        write_bytes(str(folder / step / "log.txt"), b"done\n")
    write_json(str(folder / "run.json"), record(folder, config))
    inputs = {name: {"artifacts": [{"uri": uri, "metadata": measures(name)}]} for name, uri in uris.items()}
    flags = head | {"state": state(runs.parent, runs=str(runs)), "run": run} | outputs
    return Sample(runs, run, flags, uris, {"inputs": {"artifacts": inputs}})


def digest(name: str) -> str:
    return (name.encode().hex() * 16)[:64]


def write_tables(uris: dict[str, str], folder: Path) -> None:
    days = [date(2018, 6, 4) + timedelta(days=i) for i in range(72)]
    parts = [
        Partition(str(day), f"/lake/{day}.parquet", 9585, digest(str(day)), {"quarantine_uri": None}) for day in days
    ]
    spoiled = str(folder / "quarantine: day #41.parquet")
    parts[40].details["quarantine_uri"] = spoiled
    write_bytes(spoiled, b"parquet")
    quarantined = {"negative amount": 12, "duplicate id": 3}
    details = {"source": "/data/handbook/raw", "read": 690_135, "quarantined": quarantined}
    details["quarantined_labels"] = {"negative amount": {"negative": 10, "positive": 2}, "duplicate id": {"": 3}}
    write_table(uris["events"], Table("events", parts, details))
    write_table(uris["features"], Table("features", parts, {"numeric": INPUTS, "categorical": []}))


def write_model(uri: str) -> None:
    made_from = packages.lineage(
        train={"first": "2018-07-25", "last": "2018-07-31", "rows": 67_240, "open_days": 7, "positives": 598},
        validation={"first": "2018-07-25", "last": "2018-07-31", "rows": 58_420, "open_days": 7, "positives": 402},
        reason=f"{SELECTED} has the highest average precision on the validation days.",
    )
    candidates = {
        name: packages.candidate(name, kind=name, seconds=2.5 * (i + 1), validation=metrics(name, -0.02))
        for i, name in enumerate(SCORES)
    }
    graphs = {name: name.encode() for name in SCORES}
    packages.manifest(graphs, None, made_from, candidates=candidates, selected=SELECTED).write(f"{uri}/model.json")


def metrics(name: str, shift: float = 0.0) -> dict[str, float]:
    roc, precision, cards = (value + shift for value in SCORES[name])
    return {"auc_roc": roc, "average_precision": precision, "precision_at_k": cards, "precision_at_k_ceiling": 0.397142}


def write_profile(uri: str) -> None:
    first = Operation(name="aten::addmm", calls=1050, self_cpu_ms=989.0, self_device_ms=None, share=0.412)
    value = Profile(
        model="mlp",
        kind="mlp",
        device="cpu",
        rows=67_240,
        phases=[Phase(name=name, seconds=0.2) for name in PhaseName],
        rows_per_second=183_402.4,
        data_wait_share=0.064,
        scoring=[ScoringSpeed(batch=1, rows_per_second=60_000.0)],
        activity=None,
        peak_memory_bytes=412_000_000,
        reproduced=True,
        top_operations=[first],
        diagnosis="Matrix products take most of the time.",
        findings=[],
    )
    value.write(f"{uri}/profile.json")
    write_bytes(f"{uri}/trace.json.gz", b"trace")


def write_evaluation(uri: str) -> None:
    figures = {
        "test": {"first": "2018-08-08", "last": "2018-08-14", "rows": 58_264, "open_days": 7, "positives": 385},
        "top_k": 100,
        "models": {name: metrics(name) for name in SCORES},
        "selected": SELECTED,
        "intervals": {},
        "cost": {"per_1000": 541.7, "threshold": 0.31, "alerts": 412, "missed_positives": 131},
        "curves": {
            "precision_recall": {"recall": [], "precision": []},
            "calibration": {"predicted": [], "observed": [], "count": []},
        },
        "champion": {"version": 2, "sha256": digest("champion"), "metrics": metrics("xgboost", -0.004)},
        "gains": None,
        "unseen": {},
        "notes": [],
    }
    Evaluation.model_validate(figures).write(f"{uri}/evaluation.json")
    write_bytes(f"{uri}/model_card.md", b"# Model card")
    verdict = Verdict(
        gate="evaluation",
        decision=Decision.PASS,
        reasons=[WHY],
        measures=[Measure(name=name, value=value) for name, value in metrics(SELECTED).items()],
        subject=digest("model"),
        compared_with=Opponent(version=2, sha256=digest("champion")),
    )
    verdict.write(f"{uri}/verdict.json")


def write_drift(uri: str) -> None:
    figures = {
        "model_sha256": digest("model"),
        "model_version": "unregistered",
        "promised": None,
        "window": {"first": "2018-08-08", "last": "2018-08-14", "rows": 67_028},
        "reference": {"first": "2018-07-25", "last": "2018-07-31", "rows": 20_000},
        "drifted_share": 1 / 15,
        "columns": [],
        "signals": [],
    }
    DriftReport.model_validate(figures).write(f"{uri}/drift.json")
    stable = {"decision": Decision.PASS, "reasons": SIGNALS, "measures": [], "advisory": True}
    Verdict(gate="drift", subject=digest("model"), **stable).write(f"{uri}/verdict.json")
    write_bytes(f"{uri}/evidently.html", b"<html></html>")


def write_sections(uris: dict[str, str], folder: Path) -> None:
    """Sections with every kind of block."""
    write_section(uris["deployment"], release_section())
    write_section(uris["evaluation"], quality_section())
    write_section(uris["drift"], drift_section())
    write_section(uris["events"], data_section(folder))


def release_section() -> Section:
    outcome = SectionOutcome(headline="Version 3 is live", label="promoted", tone="good", reasons=[WHY, "No drift."])
    request = Code(title="Score an event", text="curl -s http://127.0.0.1:8321/score", is_key=True)
    return Section(title="Release", weight=10, outcome=outcome, blocks=[request])


def quality_section() -> Section:
    head = [TableColumn(title="Candidate"), TableColumn(title="Average precision", format="score")]
    score = Estimate(value=0.6579, low=0.6103, high=0.7012)
    rows = [Row(cells=[name, metrics[1]]) for name, metrics in SCORES.items()]
    rows[3] = Row(cells=[SELECTED, score], tag="selected", tone="good")
    recall, curve = Axis(label="recall", ticks=[0, 0.5, 1]), [(0.0, 1.0), (0.5, 0.75), (1.0, 0.25)]
    return Section(
        title="Model quality",
        weight=20,
        outcome=SectionOutcome(headline="Passed", label="pass", tone="good", reasons=[WHY]),
        highlights=[Fact(label="Average precision", value=score, format="score", note=SELECTED)],
        blocks=[
            Grid(title="Metrics on the test days", columns=head, rows=rows, is_key=True),
            Notice(title="Caveats", sentences=["Land: 3 of 4 test rows are new."]),
            Chart(
                title="Precision and recall",
                x=recall,
                y=recall.model_copy(update={"label": "precision"}),
                series=[Series(name="selected", points=curve), Series(name="bins", style="points", points=curve)],
            ),
        ],
    )


def drift_section() -> Section:
    head = [TableColumn(title="Input"), TableColumn(title="PSI", format="score", has_bars=True, limit=0.2)]
    rows = [Row(cells=[name, 0.3 - 0.05 * i]) for i, name in enumerate(INPUTS[:5])]
    return Section(
        title="Drift",
        weight=30,
        outcome=SectionOutcome(headline="Stable", label="stable", tone="good", reasons=SIGNALS),
        blocks=[
            Grid(title="Inputs", columns=head, rows=rows, shown=2),
            Bars(title="Events by day", labels=["2018-08-13", "2018-08-14"], heights=[9500.0, 9400.0]),
        ],
    )


def data_section(folder: Path) -> Section:
    links = Links(title="", links=[Link(name="day", uri=str(folder / "quarantine: day #41.parquet"))])
    read = Text(sentences=["690,135 rows read, 15 of them quarantined."])
    return Section(title="Data", weight=60, blocks=[read, FoldedBlocks(title="Files", blocks=[links])])


def write_deployment(uri: str) -> None:
    example = json.dumps({"instances": [dict.fromkeys(INPUTS, 1.0)]})
    value = {
        "model": "handbook",
        "version": 3,
        "sha256": digest("model"),
        "decision": "promoted",
        "reasons": [WHY, "Drift: pass."],
        "champion_version": 3,
        "previous_champion_version": 2,
        "registry": "/registry",
        "target": "local",
        "endpoint": "http://127.0.0.1:8321",
        "endpoint_checked": True,
        "curl": f"curl -s http://127.0.0.1:8321/predict -H 'content-type: application/json' -d '{example}'",
        "example": dict.fromkeys(INPUTS, 1.0),
    }
    write_json(uri, value)


SECONDS = {
    "events": 6.2,
    "features": 4.9,
    "model": 31.4,
    "profile": 9.8,
    "evaluation": 3.7,
    "scores": 1.3,
    "drift": 5.1,
    "deployment": 8.3,
}


def measures(name: str) -> dict[str, Any]:
    return {
        "step": ARTIFACTS[name],
        "seconds": SECONDS[name],
        "cpu_seconds": round(1.6 * SECONDS[name], 3),
        # numbers come as floats through Kubeflow's executor input
        "peak_memory_bytes": float(int(3e8 + 2e7 * SECONDS[name])),
        "device": "cpu",
        "libraries": "numpy 2.3.5, pandas 3.0.0" + (", torch 2.13.0" if name == "model" else ""),
        "average_precision": 0.6579,
    }


def record(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    steps = {
        step: {
            "state": "done",
            "seconds": 6.0,
            "peak_memory_bytes": int(4e8),
            "log": str(folder / step / "log.txt"),
            "error": None,
        }
        for name, step in ARTIFACTS.items()
    }
    return {
        "pipeline": "training",
        "engine": "local",
        "started": "2026-11-20T02:10:00+00:00",
        "parameters": {"config": config},
        "ignored": ["training: accelerator", "profiling: accelerator"],
        "steps": steps,
    }
