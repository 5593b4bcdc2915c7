"""A small use case whose nights are run in this process: ingestion, features, scores and an answered request."""

import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from components.features.__main__ import body as build_features
from components.ingestion.__main__ import body as ingest
from components.scoring.__main__ import body as score
from nightshift import registry, storage
from nightshift.config import parse
from nightshift.config.columns import Holds
from nightshift.contracts import tables
from nightshift.contracts.erasure import ErasureDecision
from nightshift.contracts.state import State
from nightshift.data import splits, values
from nightshift.erasure.subject import DataSubject
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.context import StepContext
from pipelines.environments import local
from pipelines.erasure.carrying_out import carry_out
from pipelines.erasure.request import ErasureRequest
from tests.components import samples
from tests.components.states import state

DATE = date(2024, 3, 20)
CONFIG: dict[str, Any] = samples.CONFIG | {
    "columns": {
        "event_id": "payment",
        "event_time": "at",
        "customer": "client",
        "terminal": "shop",
        "amount": "price",
        "label": "fraud",
    },
    "quarantine": {"max_share": 0.9, "max_label_share": 0.9},
    "protocol": {"train_days": 1, "test_days": 1},
    "drift": {"window_days": 1},
    "features": [
        {"preset": "payments", "windows": ["1d"]},
        {"entity": ["customer", "terminal"], "functions": ["count"], "windows": ["6h"]},
    ],
}
EVENTS = [*splits.plan(parse(CONFIG), DATE).events]


def rows(clients: list[Any], per_day: int = 12, ids: str = "pay-{}-x") -> pd.DataFrame:
    """Events of every day; customers by chance, shops in turns; every seventh row is a bad one."""
    count = len(EVENTS) * per_day
    order = pd.Series(range(count))
    days = pd.Series([day for day in EVENTS for _ in range(per_day)])
    times = pd.to_datetime(days) + pd.to_timedelta(order % per_day * 5_000, unit="s")
    frame = pd.DataFrame(
        {
            "payment": [ids.format(1_000 + number) if ids else 1_000 + number for number in order],
            "at": times,
            "client": pd.Series(
                [clients[pick] for pick in np.random.default_rng(0).integers(0, len(clients), count)], dtype=object
            ),
            "shop": order * 7 % 3,
            "price": (order * 37 % 100 + 1).astype(float),
            "fraud": (order % 8 == 0).astype(int),
        }
    )
    frame.loc[order % 7 == 3, "price"] = -1.0
    return frame


class Nights:
    """A workspace and its source.

    Args:
        folder: of both.
        lake: its URI, below the folder without one.
    """

    def __init__(self, folder: Path, lake: str = "") -> None:
        self.folder, self.config = folder, dict(CONFIG)
        self.state: State = replace(local(folder), lake=lake or f"{folder}/lake")
        self.raw = folder / "raw"
        self.runs = 0
        self.raw.mkdir(parents=True)

    def deliver(self, frame: pd.DataFrame) -> None:
        """Write the source."""
        days = frame["at"].dt.date
        for day in EVENTS:
            own = frame[days == day].infer_objects()
            own.to_parquet(self.raw / f"{day}.parquet")

    def night(self, until: str = "scores") -> dict[str, tables.Table]:
        """Run the steps up to one; return the tables by name."""
        self.runs += 1
        run = Path(self.state.runs) / f"tiny-training-{self.runs}"
        record = {"pipeline": "training", "started": "2024-03-21T02:00:00Z", "complete": True, "steps": {}}
        storage.write_json(str(run / "run.json"), record | {"parameters": {"config": {"name": "tiny"}}})
        uris = {name: str(run / name / name) for name in ("events", "features")}
        flags = {
            "config": json.dumps(self.config),
            "date": str(DATE),
            "device": "cpu",
            "state": state(self.folder, lake=self.state.lake),
        }
        ingest(StepContext(Namespace(**flags, data=str(self.raw), events=uris["events"])))
        if until != "events":
            build_features(StepContext(Namespace(**flags, **uris)))
        if until == "scores":
            score(StepContext(Namespace(**flags, features=uris["features"], model="", scores=str(run / "scores"))))
            uris["scores"] = str(run / "scores" / "scores.json")
        return {name: tables.read_table(uri) for name, uri in uris.items() if storage.exists(uri)}

    def register(self) -> None:
        """Register a model of two inputs, and make it the champion."""
        samples.write_model(self.folder / "model", {"only": [1.0, 1.0]}, inputs=("amount", "terminal_count_1d"))
        tags = {"train_first": "2024-03-15", "train_last": "2024-03-16"}
        version = registry.register(self.state.registry, "tiny", str(self.folder / "model"), tags)
        release_record.promote(ReleaseRef(self.state.registry, "tiny"), version.version)

    def answer(self, frame: pd.DataFrame) -> None:
        """Write a prediction log of some raw events."""
        log = pd.DataFrame(
            {
                "scored_at": pd.to_datetime(frame["at"], utc=True),
                "request_id": "r",
                "version": 1,
                "score": np.float32(0.5),
                "event_id": frame["payment"].astype("string"),
                "event_time": pd.to_datetime(frame["at"], utc=True),
                "flagged": False,
            }
        )
        uri = storage.join(self.state.lake, "tiny", "predictions", f"date={DATE + timedelta(days=1)}", "1-2.parquet")
        storage.write_frame(uri, log)

    def subject(self, client: Any) -> DataSubject:
        """What `--customer` makes of an id."""
        ids = parse(self.config).columns.holding(Holds.IDENTIFIER)
        return DataSubject("customer", ids["customer"], values.canonical(client) or "", ids["event_id"])

    def request(self, client: Any) -> ErasureRequest:
        """What is asked for."""
        return ErasureRequest(self.state, parse(self.config), self.subject(client), "request 7")

    def erase(self, client: Any) -> ErasureDecision:
        """Erase a customer."""
        return carry_out(self.request(client))


def identities(made: Mapping[str, tables.Table]) -> dict[str, list[tuple[str, str]]]:
    """Return day and hash of every partition, by table."""
    return {name: [(part.date, part.sha256) for part in table.partitions] for name, table in made.items()}


def without(frame: pd.DataFrame, client: Any) -> pd.DataFrame:
    """Return the rows of all others."""
    own = frame["client"].map(values.canonical) == values.canonical(client)
    return frame[~own].reset_index(drop=True)
