"""Raw events, a model of their features, and what it says of them offline."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd

from nightshift.config import Config
from nightshift.contracts import package as contract
from nightshift.contracts.preprocessing import Inputs, TabularPreprocessing
from nightshift.tabular import windows
from nightshift.tabular.inputs import FrameScorer
from nightshift.tabular.windows import DAY
from nightshift.tasks.tabular.features import core
from tests import packages
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
    names, make = core.numeric_inputs(chosen), onnx.helper
    weights = np.linspace(-0.02, slope, len(names), dtype=np.float32).reshape(-1, 1)
    nodes = [
        make.make_node("Gemm", [contract.INPUT, "weights"], ["logit"]),
        make.make_node("Sigmoid", ["logit"], ["column"]),
        make.make_node("Reshape", ["column", "flat"], [contract.OUTPUT]),
    ]
    input_info = make.make_tensor_value_info(contract.INPUT, onnx.TensorProto.FLOAT, [None, len(names)])
    output_info = make.make_tensor_value_info(contract.OUTPUT, onnx.TensorProto.FLOAT, [None])
    constants = [onnx.numpy_helper.from_array(weights, "weights"), onnx.numpy_helper.from_array(np.array([-1]), "flat")]
    graph = make.make_model(
        make.make_graph(nodes, "all", [input_info], [output_info], constants),
        opset_imports=[make.make_opsetid("", 17)],
        ir_version=9,
    ).SerializeToString()
    inputs = Inputs(numeric=names, categorical={})
    manifest = packages.manifest(
        {"all": graph},
        inputs,
        preprocessing=TabularPreprocessing(**dict(inputs), windows=windows.configured_windows(chosen)),
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
