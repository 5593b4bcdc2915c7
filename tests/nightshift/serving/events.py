"""Raw events, a model of their features, and what it says of them offline."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nightshift.config import Config
from nightshift.contracts import package as contract
from nightshift.contracts.preprocessing import Inputs, TabularPreprocessing
from nightshift.tabular.inputs import FrameScorer
from nightshift.tabular.scaler import Scaler
from nightshift.tabular.windows import DAY
from nightshift.tasks import onnx_export
from nightshift.tasks.tabular.features import core
from nightshift_testkit import packages
from tests.nightshift.tabular.online.streams import START, Labeled, config, event, offline

PAST = 4  # days of the snapshot
RNG = random.Random(0)
ROWS = sorted(
    (RNG.randrange(7 * DAY), RNG.randrange(3), RNG.randrange(3), RNG.randrange(10**4), None) for _ in range(200)
)
CHOSEN = config()


def events_of(rows: list[tuple[Any, ...]], chosen: Config = CHOSEN) -> list[Labeled]:
    return [event(row, number, chosen) for number, row in enumerate(rows)]


EVENTS = events_of(ROWS)
LATER = [event for event in EVENTS if event.time >= (START + PAST) * DAY]


def model(folder: Path, chosen: Config = CHOSEN, slope: float = 0.03) -> str:
    """The URI of a model whose score moves with every input."""
    names = core.numeric_inputs(chosen)
    scaler = Scaler(np.zeros(len(names), np.float32), np.ones(len(names), np.float32), bool(chosen.nullable))
    weights = np.linspace(-0.02, slope, len(names), dtype=np.float32).reshape(1, -1)
    graph = onnx_export.dense(scaler, [(weights, np.zeros(1, np.float32))])
    inputs = Inputs(numeric=names, categorical={}, nullable=chosen.nullable)
    manifest = packages.manifest(
        {"all": graph},
        inputs,
        preprocessing=TabularPreprocessing(**dict(inputs), features=chosen.feature_spec),
    )
    reference = pd.DataFrame(0.0, index=range(2), columns=[*names, "label", "score"])
    contract.save(str(folder), manifest, {"all": graph}, reference)
    return str(folder)


def raw(event: Labeled) -> dict[str, Any]:
    """An event as a user has it."""
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event.time)
    fields = {"event_id": event.event_id, "event_time": time.isoformat()}
    return fields | {"customer": event.customer, "terminal": event.terminal, "amount": event.amount}


def expected(uri: str, events: list[Labeled], chosen: Config = CHOSEN) -> list[float]:
    """What the model says of the batch kernel's features of the newest events."""
    rows = pd.DataFrame(offline(events, chosen), columns=core.numeric_inputs(chosen))
    scores: list[float] = FrameScorer(uri, contract.load(uri)).score(rows).tolist()
    return scores
