"""Events that a server can be asked about: of the online state, or of a model's reference sample."""

import json
import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.tables import read_table
from nightshift.http.messages import HttpResponse
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.serving.feature_encoder import FeatureEncoder
from nightshift.serving.payloads import decode
from nightshift.serving.protocols import features
from nightshift.tabular.inputs import FrameScorer
from nightshift.tabular.online import snapshot
from nightshift.tasks.base import serving as base
from nightshift.tasks.base.serving import Payload
from nightshift.tasks.examples import ScoredExample


class ExamplesTask(base.ExamplesTask):
    """Events of the online state, or of the model's reference sample."""

    def online_state(self, lake: str, use_case: str, model: ModelPackage, features: str | None = None) -> str | None:
        if not model.preprocessing.takes_events:
            return None
        own = features and read_table(features).details["online"]
        if own and snapshot.serves(snapshot.read(own), model.tabular):
            return snapshot.newer(own, model.tabular) or str(own)
        return snapshot.newest(lake, use_case, model.tabular)

    def from_files(self, uri: str, model: ModelPackage, online: str | None) -> ScoredExample:
        known = snapshot.read(online).example if online else None
        inputs = known.inputs if known else example(model.inputs, package.read_reference(uri))
        score = FrameScorer(uri, model).score(pd.DataFrame([inputs])).max()  # of classes, the highest
        name, event = ("events", known.event) if known else ("instances", inputs)
        return ScoredExample(name, event, float(score), online)

    def from_lake(self, uri: str, model: ModelPackage, lake: str, use_case: str) -> tuple[ScoredExample, bytes]:
        example = ExamplesTask().from_files(uri, model, None)
        return example, json.dumps(example.request).encode()

    def payloads(self, uri: str, model: ModelPackage, lake: str, use_case: str, most: int) -> list[Payload]:
        rows = instances(model.inputs, package.read_reference(uri), most)
        return [Payload(json.dumps({"instances": [row]}).encode(), "application/json") for row in rows]

    def stages(self, uri: str, model: ModelPackage, most: int) -> dict[str, Callable[[Any], Any]]:
        graph = Graph(package.read_graph(uri, model, model.selected))
        encoder, decision, classes = FeatureEncoder(model.inputs, most), model.decision, model.preprocessing.labels
        return {
            "parse": decode,
            "features": encoder.encode,
            "compute": graph.score,
            "serialize": lambda scores: HttpResponse.json(
                {"predictions": features.predictions(scores, decision, 1, classes)}
            ),
        }


def example(inputs: Inputs, reference: pd.DataFrame) -> dict[str, Any]:
    """Return the features of one real event, rounded to six digits: the most suspicious one of a sample.

    Args:
        inputs: the model's named inputs.
        reference: rows of `inputs.columns` and `score`.
    """
    row = _complete(inputs, reference).sort_values("score", kind="stable").iloc[-1]
    numbers = {column: _round(row[column]) for column in inputs.numeric}
    return numbers | {column: str(row[column]) for column in inputs.categorical}


def _round(number: float) -> float | None:
    return None if math.isnan(number) else float(f"{number:.6g}")


def instances(inputs: Inputs, reference: pd.DataFrame, most: int) -> list[dict[str, float | str | None]]:
    """Return the features of real events of a model's reference sample, so many at most; None for missing numbers.

    Raises:
        UserError: when no row of the sample is complete.
    """
    rows = _complete(inputs, reference)[inputs.columns].head(most)
    typed = rows.astype(dict.fromkeys(inputs.numeric, float) | dict.fromkeys(inputs.categorical, str)).astype(object)
    values = typed.where(rows.notna(), None).itertuples(index=False)
    return [dict(zip(inputs.columns, row, strict=True)) for row in values]


def _complete(inputs: Inputs, reference: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that miss nothing but nullable numbers."""
    rows = reference.dropna(subset=[name for name in inputs.columns if name not in inputs.nullable])
    if rows.empty:
        raise UserError("the model's reference sample has no row without a missing value; train it again on other days")
    return rows
