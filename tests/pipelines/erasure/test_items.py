"""Texts of an author are erased with what networks see of them, and with the reports that may show them."""

import json
from argparse import Namespace
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from components.features.__main__ import body as build_features
from components.ingestion.__main__ import body as ingest
from nightshift import storage
from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.data import splits
from nightshift.data.splits import Days
from nightshift.erasure.subject import DataSubject
from nightshift.items.shards import ItemTable
from nightshift.runtime.context import StepContext
from pipelines.environments import local
from pipelines.erasure.carrying_out import carry_out
from pipelines.erasure.request import ErasureRequest
from tests.components.states import state

DATE = date(2024, 3, 20)
CONFIG: dict[str, Any] = {
    "name": "mails",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "mail", "event_time": "at", "text": "body", "label": "topic", "group": "author"},
    "protocol": {"train_days": 1, "test_days": 1},
    "drift": {"window_days": 1},
    "task": {"kind": "text-classification", "classes": ["a", "b"], "candidates": {"x": {"kind": "tfidf"}}},
}
DAYS = splits.plan(parse(CONFIG), DATE).events
AUTHORS = ["anna-001", "bert-002", "carl-003"]
SHOWN = ["features/features.section.json", "report.html", "page.json", "reporting/report"]


def mails(day: date) -> pd.DataFrame:
    order = range(9)
    return pd.DataFrame(
        {
            "mail": [f"mail-{day.day}-{number}" for number in order],
            "at": [pd.Timestamp(day) + pd.Timedelta(hours=number) for number in order],
            "body": [f"letter {number} of day {day.day} says {'much ' * number}" for number in order],
            "topic": ["ab"[number % 2] for number in order],
            "author": [AUTHORS[number % 3] for number in order],
        }
    )


def night(folder: Path, authors: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Run ingestion and features on the mails of some authors; day and hash of each partition by table."""
    run, raw = folder / "runs" / "mails-training-1", folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for day in DAYS:
        frame = mails(day)
        frame[frame["author"].isin(authors)].to_parquet(raw / f"{day}.parquet")
    record = {"pipeline": "training", "started": "2024-03-21T02:00:00Z", "complete": True, "steps": {}}
    storage.write_json(str(run / "run.json"), record | {"parameters": {"config": {"name": "mails"}}})
    uris = {name: str(run / name / name) for name in ("events", "features")}
    flags = {"config": json.dumps(CONFIG), "date": str(DATE), "device": "cpu", "state": state(folder)}
    ingest(StepContext(Namespace(**flags, data=str(raw), events=uris["events"])))
    build_features(StepContext(Namespace(**flags, **uris)))
    return {
        name: [(part.date, part.sha256) for part in tables.read_table(uri).partitions] for name, uri in uris.items()
    }


@pytest.mark.slow
def test_an_authors_texts_go_with_what_networks_see_of_them_and_with_what_may_show_them(tmp_path: Path) -> None:
    folder, never = tmp_path / "erased", tmp_path / "never"
    run = folder / "runs" / "mails-training-1"
    night(folder, AUTHORS)
    for name in SHOWN:
        storage.write_bytes(str(run / name), b"{}")
    storage.write_bytes(str(folder / "registry" / "endpoint" / "mails" / "example.plain"), b"a letter")
    subject = DataSubject("group", "author", "anna-001", "mail")

    decision = carry_out(ErasureRequest(local(folder), parse(CONFIG), subject, "request 7"))

    assert decision.proof is not None and decision.proof.hits == {}
    assert [name for name in SHOWN if (run / name).exists()] == []
    assert list((folder / "registry" / "endpoint" / "mails").iterdir()) == []
    left = read_items(folder)
    identities = night(never, AUTHORS[1:])
    pd.testing.assert_frame_equal(left.rows, (others := read_items(never)).rows)
    assert (left.inputs(left.rows) == others.inputs(others.rows)).all()
    assert night(folder, AUTHORS) == identities


def read_items(folder: Path) -> ItemTable:
    """The features that the run names."""
    table = tables.read_table(str(folder / "runs" / "mails-training-1" / "features" / "features"))
    return ItemTable.read(table, Days(DAYS.first, DAYS.last))
