"""A workspace with something on every page of the UI."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from nightshift import registry
from nightshift.contracts.section import Fact, Link, Links, Page, Section, SectionOutcome
from nightshift.contracts.tables import Partition, Table, partition_uri, write_table
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.registry import approvals, release_record
from nightshift.registry.release_record import ReleaseRef
from pipelines import configs
from pipelines.environments import local
from pipelines.ui.app import build_app
from pipelines.ui.pages import PAGES
from pipelines.workspace import Workspace

NEWEST = "fraud-training-2018-07-31"
VALUES = {"name": "fraud", "run": NEWEST, "version": "3", "day": "2018-07-30", "event": "3"}
QUERIES = {
    "/events/{name}": "?column=customer&id=ann",
    "/compare/runs": f"?left=fraud-training-2018-07-30&right={NEWEST}",
    "/compare/versions/{name}": "?left=2&right=3",
}
HERE = "http://127.0.0.1:8765"


def list_urls(suffix: str = "") -> dict[str, str]:
    return {page.path: page.path.format(**VALUES) + suffix + QUERIES.get(page.path, "") for page in PAGES}


def open_ui(folder: Path) -> TestClient:
    return TestClient(build_app(Workspace(local(folder))), base_url=HERE)


def write_run(folder: Path, name: str, **record: Any) -> Path:
    """Write the record of a run of `fraud` with some of its fields replaced, and return the run's folder."""
    run = folder / "runs" / name
    run.mkdir(parents=True)
    parameters = {"date": "2018-07-31", "config": configs.load("fraud")}
    usual = {"pipeline": "training", "started": "2118-08-01T02:00:00+00:00", "parameters": parameters, "complete": True}
    (run / "run.json").write_text(json.dumps(usual | record))
    return run


def write_summary(run: Path, use_case: str = "fraud", **fields: Any) -> None:
    steps = {"ingestion": {"state": "done", "seconds": 3.0, "usd": 0.25}}
    summary = {"run": run.name, "config": {"name": use_case}, "model_version": 3, "usd": 0.25, "steps": steps}
    (run / "summary.json").write_text(json.dumps(summary | fields))


def write_data(folder: Path, run: Path, note: str) -> None:
    """Write what a run has read: a day with quarantined rows, and one without rows."""
    rows = {"transaction_id": ["100200", "100300"], "amount": ["-1", note], "quarantine_reason": ["bad_amount"] * 2}
    write_partition(folder, "quarantine", rows)
    write_partition(
        folder, "events", {"event_id": [1, 2, 3], "customer": ["ann", note, "ann"], "amount": [1.5, 2.0, 3.0]}
    )
    write_partition(folder, "features", {"event_id": [1, 2, 3], "customer_count_7d": [4, 5, 6]})
    scores = {"event_id": [1, 2, 3], "score": [0.1, 0.2, 0.9], "flagged": [False, False, True]}
    write_partition(folder, "scores", scores | {"model_version": ["3"] * 3})
    details = {"read": 12, "quarantined": {"bad_amount": 2}, "quarantine_uri": "/elsewhere/abc.parquet"}
    empty = Partition("2018-07-31", "x", 0, "0", {"read": 0})
    for table in ("events", "features"):
        day = Partition("2018-07-30", "/elsewhere/abc.parquet", 3, "0", details)
        name = "ingestion" if table == "events" else table
        write_table(str(run / name / table), Table(table, [day, empty]))


def write_partition(folder: Path, table: str, rows: dict[str, list[Any]]) -> None:
    """Write a partition of the first day into the lake of a folder."""
    uri = partition_uri(str(folder / "lake"), "fraud", table, date(2018, 7, 30), "abc")
    Path(uri).parent.mkdir(parents=True)
    pq.write_table(pa.table(rows), uri)


def write_report(run: Path, text: str, use_case: str = "fraud") -> None:
    outcome = SectionOutcome(headline=text, label="drifted", tone="bad", reasons=[text])
    section = Section(
        title=text,
        weight=1,
        highlights=[Fact(label=text, value=text)],
        blocks=[Links(title=text, links=[Link(name=text, uri=f"javascript:alert('{text[:20]}')")])],
    )
    page = Page(use_case=use_case, run=run.name, headline=outcome, outcomes=[(text, outcome)], sections=[section])
    page.write(str(run / "page.json"))


def write_verdict(run: Path, step: str, value: float, name: str = "average_precision") -> None:
    measure = Measure(name=name, value=value, limit=0.5, interval=(value - 0.1, value + 0.1))
    verdict = Verdict(gate=step, decision=Decision.PASS, reasons=["It is good."], measures=[measure], subject="0" * 64)
    (run / step / step).mkdir(parents=True, exist_ok=True)
    verdict.write(str(run / step / step / "verdict.json"))


@pytest.fixture
def full(workspace: Path) -> Path:
    """The workspace with two trainings beside its monitoring, the newer of which made version 3, and failed runs."""
    for number, day in enumerate(("2018-07-30", "2018-07-31")):
        parameters = {"date": day, "config": configs.load("fraud")}
        started = f"2118-08-0{number + 1}T02:00:00+00:00"
        run = write_run(workspace, f"fraud-training-{day}", started=started, parameters=parameters)
        write_summary(run)
        write_data(workspace / str(number), run, "much")
        write_report(run, "Something has drifted.")
        write_verdict(run, "evaluation", 0.6 + number / 10)
        write_verdict(run, "drift", 0.3 + number / 10, "volume")
        record = workspace / "registry" / "models" / "fraud" / f"{number + 2}.json"
        version = json.loads(record.read_text())
        version["tags"]["parent_run"] = run.name
        record.write_text(json.dumps(version))
    (workspace / "1" / "lake").rename(workspace / "lake")
    ended = {"ingestion": {"state": "failed", "seconds": 1.0, "error": "23 % of the rows are rejected"}}
    write_run(workspace, "fraud-scoring-2018-07-31", pipeline="scoring", complete=False, steps=ended)
    return workspace


def wait_for_approval(folder: Path, number: int = 3) -> ReleaseRef:
    """Have a version wait for a person beside the champion."""
    state = local(folder)
    ref = ReleaseRef.from_state(state, "fraud")
    record, version = release_record.read(ref), registry.find(state.registry, "fraud", number)
    assert record
    named = release_record.describe(version)
    approvals.note(ref, number, approvals.describe(named, record.live.sha256, "fraud-1", ["It is better."]))
    return ref
