"""What tasks have in common whose models take named inputs: rows to fit on, and rows beside a reference."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.contracts import package
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.drift import PREDICTED, SCORE
from nightshift.contracts.package import Datatype, ModelPackage, Signature, Tensor
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.tables import Table
from nightshift.data.splits import Days, describe
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError, check_names
from nightshift.runtime.step import log
from nightshift.stats import bootstrap, noise
from nightshift.stats.comparison import Floats
from nightshift.tabular import inputs as tabular
from nightshift.tabular.inputs import FrameScorer
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.base import drift, training

REFERENCE_ROWS = 10_000


@dataclass(frozen=True)
class InputRows(training.Sample):
    """Rows, as models take them.

    Attributes:
        rows: the inputs, and `label` if they have one.
        days: on which they lie.
        inputs: of a model.
    """

    rows: pd.DataFrame
    days: Days
    inputs: Inputs

    @cached_property
    def matrix(self) -> Matrix:
        """Their inputs, float32 (n, width).

        Raises:
            UserError: when an input is missing that must not be, or beyond the range of float32.
        """
        return require_range(tabular.matrix(self.inputs, self.rows), self.inputs)

    @property
    def window(self) -> FoldWindow:
        return describe(self.rows, self.days)

    @property
    def signature(self) -> Signature:
        return Signature.of_scores(Tensor.of_rows(Datatype.FP32, self.inputs.width))

    @property
    def preprocessing(self) -> Inputs:
        return self.inputs

    @property
    def constant(self) -> list[str]:
        names = [name for name in self.inputs.columns if _is_constant(self.rows[name])]
        if names:
            log.warning("constant in all training rows, so nothing is learned from: %s", ", ".join(names))
        return names

    def reference(self, graph: bytes, config: Config) -> pd.DataFrame:
        """Return at most `REFERENCE_ROWS` of them, drawn by the task's seed.

        Returns:
            inputs, `label` if any, what `name_scores` gives, and the blocks that `noise.name_blocks` gives.
        """
        drawn = np.random.default_rng(config.task.seed).permutation(len(self.rows))[:REFERENCE_ROWS]
        rows = self.rows.iloc[np.sort(drawn)]
        columns = rows.filter([*self.inputs.columns, "label"])
        entities = [name for name in config.columns.holding(Holds.IDENTIFIER) if name in rows and name != "event_id"]
        blocks = noise.name_blocks(rows, entities, rows["event_time"])
        scores = Graph(graph).score(tabular.matrix(self.inputs, rows))
        return columns.assign(**name_scores(scores, self.preprocessing.labels)).join(blocks).reset_index(drop=True)


@dataclass(frozen=True)
class MeasuredRows:
    """The test rows of a fold, on which models are measured.

    Attributes:
        config: the use case.
        days: on which they lie.
        rows: the inputs, and `label` if they have one.
    """

    config: Config
    days: Days
    rows: pd.DataFrame
    _scored: dict[tuple[str, str], Floats] = field(default_factory=dict, repr=False, kw_only=True)

    def __str__(self) -> str:
        return f"{len(self.rows)} test rows of {self.days}"

    @property
    def window(self) -> FoldWindow:
        """Their days, and how many there are."""
        return describe(self.rows, self.days)

    def incompatibility(self, _: ModelPackage, model: ModelPackage) -> str:
        missing = [name for name in model.inputs.columns if name not in self.rows]
        if missing:
            return f"needs input {missing[0]!r}, which the features lack now"
        if missing := tabular.missing_inputs(model.inputs, self.rows):
            return f"needs input {missing[0]!r}, which some test rows lack"
        return ""

    def scores(self, uri: str, model: ModelPackage, candidate: str) -> Floats:
        """Return what each row scores by a candidate of the model at a URI, (n,)."""
        if (uri, candidate) not in self._scored:
            self._scored[uri, candidate] = FrameScorer(uri, model, candidate).score(self.rows)
        return self._scored[uri, candidate]


@dataclass(frozen=True)
class ReferenceComparison(drift.Comparison):
    """The newest rows of a table, beside a model's training rows."""

    inputs: drift.DriftInputs[Any]

    @property
    def reference(self) -> pd.DataFrame:
        rows = self.inputs.reference
        return rows[[*self.inputs.model.inputs.columns, *self._scored, *noise.list_blocks(rows)]]

    @property
    def numeric(self) -> list[str]:
        return [*self.inputs.model.inputs.numeric, SCORE]

    @property
    def _scored(self) -> list[str]:
        """The columns that the model adds."""
        return [PREDICTED, SCORE] if self.inputs.model.preprocessing.labels else [SCORE]

    def batches(self, days: Iterable[date]) -> Iterator[pd.DataFrame]:
        features, scores = self.inputs.features, self.inputs.scores
        labels = self.inputs.config.columns.holding(Holds.LABEL)
        blocks = noise.list_blocks(self.inputs.reference)
        entities = noise.list_entities(blocks)
        columns = [*dict.fromkeys(["event_id", *self.inputs.model.inputs.columns, *labels, *entities])]
        for day in days:
            scored = storage.read_frame(scores.partition(day).uri, ["event_id", *self._scored])
            for rows in storage.read_batches(features.partition(day).uri, columns):
                now, scored = scored.iloc[: len(rows)], scored.iloc[len(rows) :]
                assert np.array_equal(now["event_id"], rows["event_id"]), f"the scores of {day} are not of its features"
                added = {name: now[name].to_numpy() for name in self._scored}
                yield rows.assign(**added).join(noise.name_blocks(rows, entities, day)[blocks])


def name_scores(scores: Floats, classes: Sequence[str]) -> dict[str, Any]:
    """Return the columns of some scores: `score`, of classes the highest, float32 (n,), with the class `predicted`.

    Args:
        scores: (n,), or (n, classes).
        classes: what each is of; none where a row has one score.
    """
    if not classes:
        return {SCORE: scores}
    predicted = np.array(classes, dtype=object)[scores.argmax(1)]
    return {PREDICTED: pd.array(predicted, dtype="str"), SCORE: scores.max(1)}


def require_labels(rows: pd.DataFrame, days: Days) -> pd.DataFrame:
    """Return the rows of some days as they are.

    Raises:
        UserError: when a label is missing.
    """
    if unlabeled := int(rows["label"].isna().sum()):
        raise UserError(
            f"{days}: {unlabeled} rows have no label although it is due; bring the labels, run again from ingestion, "
            "or raise quarantine.max_share to leave such rows out"
        )
    return rows


def read_labeled(table: Table, day: date) -> pd.DataFrame:
    """Return a day's rows that have a label."""
    return table.read([day]).dropna(subset="label")


def select_slices(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the columns by whose values a release guards slices.

    Raises:
        UserError: when there is no such column.
    """
    check_names("release.slices", columns, map(str, rows.columns))
    return rows[list(columns)]


def select_group_slices(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return those columns of the first row of each group, a row a group; see `select_slices`."""
    firsts = np.unique(bootstrap.number_groups(rows), return_index=True)[1]
    return select_slices(rows.iloc[firsts], columns)


def score_labeled_rows(table: Table, day: date, uris: Sequence[str]) -> tuple[Floats, list[Floats]]:
    """Return the labels of a day's rows that have one, float64 (n,), and what some models score them.

    Args:
        table: the features.
        day: the rows'.
        uris: folders of the models.
    """
    rows = read_labeled(table, day)
    labels: Floats = rows["label"].to_numpy(dtype=np.float64)
    return labels, [FrameScorer(uri, package.load(uri)).score(rows).astype(np.float64) for uri in uris]


def require_range(matrix: Matrix, inputs: Inputs) -> Matrix:
    """Return a matrix as it is.

    Raises:
        UserError: when an input is beyond the range of float32 in some row.
    """
    wrong = np.flatnonzero(np.isinf(matrix).any(axis=0))
    if len(wrong):
        name = inputs.columns[wrong[0]]
        raise UserError(
            f"input {name!r} is beyond the range of float32 (3.4e38) in a training row; "
            "check its values, or leave it out of columns.numeric"
        )
    return matrix


def _is_constant(column: pd.Series) -> bool:
    return bool((column == column.iloc[0]).all() or column.isna().all())
