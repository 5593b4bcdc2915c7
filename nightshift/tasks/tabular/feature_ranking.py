"""What each line of a declaration gains on the validation days, and what it costs: an ablation with XGBoost.

A line is judged twice: alone beside the event's own columns, and by what is lost without it where all others stay. Two
lines that say the same lose nothing one by one, so a line is kept that is certain to gain in either way. Differences
are of the same resamples of customers, so their intervals are paired. Test days are not asked for.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.config.features import FeatureLine
from nightshift.config.tabular import TabularConfig
from nightshift.contracts.preprocessing import Calendar, FeatureSpec, Inputs
from nightshift.data.splits import Fold, rows_of
from nightshift.runtime.errors import UserError
from nightshift.stats import bootstrap
from nightshift.stats.bootstrap import BootstrapInterval
from nightshift.tabular import declarations, frames, inputs, windows
from nightshift.tabular.online import sizes
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import estimators
from nightshift.tasks.tabular.features import core

KIND = "xgboost"
PARAMETERS = {"n_estimators": 100, "learning_rate": 0.1, "max_depth": 3, "tree_method": "hist", "max_bin": 1024}
SEED = 0

Scores = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class PrecisionGain:
    """By how much average precision rises, and the interval of the difference."""

    value: float
    interval: BootstrapInterval

    @property
    def is_certain(self) -> bool:
        """Whether it is above 0 in all of the interval."""
        return self.interval.low > 0

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.interval.low:+.3f}, {self.interval.high:+.3f}]"


@dataclass(frozen=True)
class RankedLine:
    """What is known of a line.

    Attributes:
        line: of the declaration.
        names: of its features.
        alone: what it gains beside the event's own columns.
        beside: what it gains where all other lines stay.
        microseconds: of CPU that the batch kernel takes for an event.
        entity_bytes: of online state that it takes alone, for one entity.
    """

    line: FeatureLine
    names: frozenset[str]
    alone: PrecisionGain
    beside: PrecisionGain
    microseconds: float
    entity_bytes: float

    @property
    def gains(self) -> bool:
        """Whether it is certain to gain."""
        return self.alone.is_certain or self.beside.is_certain


@dataclass(frozen=True)
class ValidationScore:
    """Average precision on the validation days: of all rows, and of each resample of their customers."""

    value: float
    resamples: Scores

    def gain_over(self, other: "ValidationScore") -> PrecisionGain:
        """Return by how much it is higher."""
        interval = BootstrapInterval.from_resamples(self.resamples - other.resamples)
        return PrecisionGain(self.value - other.value, interval)


@dataclass(frozen=True)
class FeatureTrial:
    """The rows of a fold with all features, and fits of some of them.

    Attributes:
        config: the use case.
        events: canonical events of the fold's days and those that windows reach back to, in order of time.
        fold: days of training, and days that judge.
    """

    config: TabularConfig
    events: pd.DataFrame
    fold: Fold

    @cached_property
    def _features(self) -> pd.DataFrame:
        features: pd.DataFrame = core.features(self.events, self.config, frames.backend("cpu"))
        return features[features["label"].notna()]

    @cached_property
    def train(self) -> pd.DataFrame:
        """Labeled rows of the training days."""
        return rows_of(self._features, self.fold.train)

    @cached_property
    def judging(self) -> pd.DataFrame:
        """Labeled rows of the days that judge."""
        return rows_of(self._features, self.fold.test)

    @cached_property
    def inputs(self) -> Inputs:
        """All inputs."""
        spec, columns = self.config.feature_spec, self.config.columns
        numeric = declarations.numeric_inputs(spec, columns.numeric)
        nullable = declarations.nullable_inputs(spec, self.config.nullable)
        return inputs.seen_in(self.train, numeric, columns.categorical, nullable)

    @cached_property
    def _matrices(self) -> list[npt.NDArray[np.float32]]:
        return [inputs.matrix(self.inputs, rows) for rows in (self.train, self.judging)]

    def require_labels(self) -> None:
        """Check that both windows have positives and others.

        Raises:
            UserError: when one has not.
        """
        for rows, days in ((self.train, self.fold.train), (self.judging, self.fold.test)):
            positives = int((rows["label"] == 1).sum())
            if not 0 < positives < len(rows):
                raise UserError(
                    f"{days} have {positives} positives of {len(rows):,} labeled rows, and a gain is measured by both "
                    "kinds; give a later --date, or longer protocol.train_days and test_days"
                )

    def score(self, left_out: frozenset[str]) -> ValidationScore:
        """Fit XGBoost without some inputs, and judge it."""
        train, judging = self._matrices
        labels = self.judging["label"].to_numpy(np.int8)
        columns = inputs.positions(self.inputs, {*self.inputs.columns} - left_out)
        predicted = np.zeros(len(judging))
        if columns:
            spec = FitSpec(
                "task.candidates",
                self._parameters,
                SEED,
                self.config.task.threads,
                "cpu",
                nullable=True,
                columns=columns,
            )
            fitted = estimators.fit(KIND, spec, train, self.train["label"].to_numpy(np.int8))
            predicted = np.asarray(fitted.predict(judging), dtype=np.float64)
        groups = pd.factorize(self.judging["customer"])[0]
        whole = bootstrap.weighted_average_precision(labels, predicted, np.ones(len(labels)))
        return ValidationScore(whole, bootstrap.average_precision_of_groups(labels, predicted, groups))

    @property
    def _parameters(self) -> Mapping[str, object]:
        candidates = self.config.task.candidates.values()
        return next((candidate.parameters for candidate in candidates if candidate.kind == KIND), PARAMETERS)


@dataclass(frozen=True)
class FeatureRanking:
    """What came of an ablation.

    Attributes:
        lines: in the order of the declaration.
        without: average precision without any of them.
        whole: with all.
        kept: with those to keep.
    """

    lines: Sequence[RankedLine]
    without: ValidationScore
    whole: ValidationScore
    kept: ValidationScore

    @property
    def kept_lines(self) -> list[FeatureLine]:
        """The lines to keep, see `keep`."""
        return [line.line for line in keep(self.lines)]


def keep(lines: Sequence[RankedLine]) -> list[RankedLine]:
    """Return the lines that gain, and those that these refer to; all where none is certain to."""
    gaining = [line for line in lines if line.gains] or lines
    referred = {line.line.to for line in gaining}
    return [line for line in lines if line in gaining or line.names & referred]


def rank(trial: FeatureTrial) -> FeatureRanking:
    """Measure each line of a declaration.

    Raises:
        UserError: when the fold's days lack positives or others, or there are no lines.
    """
    config = trial.config
    if not config.features:
        raise UserError("features: has no lines to rank; `nightshift config guess` proposes some")
    trial.require_labels()
    names = list(_name_lines(config))
    every = frozenset().union(*names)
    whole, without = trial.score(frozenset()), trial.score(every)
    lines = [
        RankedLine(
            line,
            own,
            trial.score(every - own).gain_over(without),
            whole.gain_over(trial.score(own)),
            _time(trial, own) * 1e6,
            _count_bytes(trial, own),
        )
        for line, own in zip(config.features, names, strict=True)
    ]
    kept = {id(line) for line in keep(lines)}
    dropped = [line.names for line in lines if id(line) not in kept]
    return FeatureRanking(lines, without, whole, trial.score(frozenset().union(*dropped)) if dropped else whole)


def _name_lines(config: TabularConfig) -> Iterator[frozenset[str]]:
    """Yield the names of each line's inputs: those that it adds to the lines above it."""
    before = frozenset[str]()
    for number in range(1, len(config.features) + 1):
        spec = config.declare(config.features[:number])
        names = frozenset([*(part.value for part in spec.calendar), *(feature.name for feature in spec.features)])
        yield names - before
        before = names


def _select(spec: FeatureSpec, names: frozenset[str]) -> FeatureSpec:
    return spec.model_copy(update={"features": [feature for feature in spec.features if feature.name in names]})


def _time(trial: FeatureTrial, names: frozenset[str]) -> float:
    """Return the seconds of CPU that the batch kernel takes for some inputs of an event."""
    events, config = core.in_order(trial.events), trial.config
    begin = time.thread_time()
    for group in declarations.entity_groups(_select(config.feature_spec, names)):
        core.compute_group(group, events, config, frames.backend("cpu"))
    if calendar := [part for part in Calendar if part in names]:
        times = events["event_time"].astype("datetime64[us]").astype("int64").to_numpy()
        walls = windows.wall_times(times, config.feature_spec.timezone, np)
        for part in calendar:
            windows.calendar_value(part, walls)
    return (time.thread_time() - begin) / max(len(events), 1)


def _count_bytes(trial: FeatureTrial, names: frozenset[str]) -> float:
    spec = _select(trial.config.feature_spec, names)
    newest = trial.events["event_time"].max().floor("D") - pd.Timedelta(days=spec.longest_days + spec.label_delay_days)
    counts = sizes.EventCounts.from_frame(trial.events[trial.events["event_time"] >= newest], spec)
    return sum(part.per_entity for part in sizes.measure_entities(spec, counts))
