"""What lines of a declaration gain: measured on the validation days, and by nothing of the test days."""

from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nightshift.config import parse
from nightshift.config.features import FeatureLine
from nightshift.config.tabular import TabularConfig
from nightshift.data.splits import plan
from nightshift.runtime.errors import UserError
from nightshift.stats.bootstrap import BootstrapInterval
from nightshift.tasks.tabular.feature_ranking import FeatureTrial, PrecisionGain, RankedLine, keep, rank

LAST = date(2025, 3, 10)
USEFUL = {"entity": "customer", "functions": ["seconds_since_last"], "windows": ["7d"]}
USELESS = {"entity": "terminal", "functions": ["count"], "windows": ["1d"]}
ROLES = ("event_id", "event_time", "customer", "terminal", "label")


def configure(*lines: dict[str, Any]) -> TabularConfig:
    parameters = {"n_estimators": 20, "max_depth": 2}
    config = parse(
        {
            "name": "tiny",
            "label_delay_days": 1,
            "source": {"table": "t.csv"},
            "columns": {role: role for role in ROLES},
            "protocol": {"train_days": 10, "test_days": 5},
            "features": list(lines),
            "task": {"kind": "tabular", "candidates": {"a": {"kind": "xgboost", "parameters": parameters}}},
        }
    )
    assert isinstance(config, TabularConfig)
    return config


def draw_events() -> pd.DataFrame:
    """Sixty days of events; what follows another within an hour is positive, mostly."""
    rng = np.random.default_rng(4)
    seconds = np.sort(rng.integers(0, 60 * 86_400, 6000))
    frame = pd.DataFrame({"second": seconds, "customer": rng.integers(0, 60, 6000), "label": 0})
    follows = frame.groupby("customer")["second"].diff() < 3600
    return pd.DataFrame(
        {
            "event_id": np.arange(6000),
            "event_time": pd.Timestamp(LAST - timedelta(days=59)) + pd.to_timedelta(seconds, "s").astype("m8[us]"),
            "customer": frame["customer"],
            "terminal": rng.integers(0, 30, 6000),
            "label": pd.array((follows & (rng.random(6000) < 0.9)).astype(int), dtype="Int8"),
        }
    )


def test_a_line_that_tells_positives_is_kept_and_one_that_does_not_is_dropped() -> None:
    config = configure(USEFUL, USELESS)

    ranking = rank(FeatureTrial(config, draw_events(), plan(config, LAST).validation))

    useful, useless = ranking.lines
    assert useful.alone.interval.low > 0.3
    assert useful.beside.is_certain
    assert not useless.gains
    assert [line.entity for line in ranking.kept_lines] == ["customer"]
    assert ranking.whole.value > ranking.without.value + 0.3
    assert useful.entity_bytes > 0
    assert useful.microseconds > 0


def test_labels_of_later_days_change_nothing() -> None:
    config, events = configure(USEFUL, USELESS), draw_events()
    fold = plan(config, LAST).validation
    later = events["event_time"] > pd.Timestamp(fold.test.last + timedelta(days=1))
    changed = events.assign(label=events["label"].mask(later, 1 - events["label"]))
    assert (changed["label"] != events["label"]).sum() > 300

    gains = [
        [(line.alone, line.beside) for line in rank(FeatureTrial(config, table, fold)).lines]
        for table in (events, changed, events[~later])
    ]

    assert gains[0] == gains[1] == gains[2]


def test_a_line_is_kept_that_another_refers_to() -> None:
    certain, uncertain = (
        PrecisionGain(0.1, BootstrapInterval(0.01, 0.2)),
        PrecisionGain(0.1, BootstrapInterval(-0.01, 0.2)),
    )
    mean = FeatureLine(entity="card", functions=["mean"], column="amount", windows=["1d"], name="m")
    other = FeatureLine(entity="shop", functions=["count"], windows=["1d"])
    zscore = FeatureLine(zscore="amount", to="m_mean_amount_1d")

    def line(declared: FeatureLine, gain: PrecisionGain, *names: str) -> RankedLine:
        return RankedLine(declared, frozenset(names), gain, uncertain, 1.0, 1.0)

    lines = [line(mean, uncertain, "m_mean_amount_1d"), line(other, uncertain), line(zscore, certain)]
    assert [kept.line for kept in keep(lines)] == [mean, zscore]
    assert keep(lines[:2]) == lines[:2], "where none is certain, all stay"


def test_days_without_positives_are_refused() -> None:
    config = configure(USEFUL)
    table = draw_events().assign(label=pd.array([0] * 6000, dtype="Int8"))

    with pytest.raises(UserError, match=r"have 0 positives of .* give a later --date, or longer protocol.train_days"):
        rank(FeatureTrial(config, table, plan(config, LAST).validation))
