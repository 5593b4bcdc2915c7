"""Customers who are known as compromised before a test day, and are no news on it."""

from datetime import timedelta

import pandas as pd

from nightshift.config.tabular import TabularProtocol
from nightshift.data.splits import Days, Fold, rows_of


def test_rows(features: pd.DataFrame, fold: Fold, protocol: TabularProtocol) -> pd.DataFrame:
    """Return a fold's test rows, without customers already known as compromised on their day.

    On a test day t a customer is known as compromised when a fraud of theirs happened from `compromised_days` before
    the end of training (by default all of it) to the day t - label_delay - 1.

    Args:
        features: rows with `event_time` (datetime64, UTC), `customer` and `label` (0, 1 or null), covering
            the fold from the first of these days to its last test day.
        fold: the days.
        protocol: whether such customers are left out, and how long one is remembered.
    """
    rows = rows_of(features, fold.test)
    if not protocol.drop_compromised:
        return rows
    days = protocol.compromised_days
    first = fold.train.last - timedelta(days=days - 1) if days else fold.train.first
    positives = rows_of(features, Days(first, fold.test.last))
    first_positive = positives[positives["label"] == 1].groupby("customer")["event_time"].min().dt.floor("D")
    known_from = first_positive + timedelta(days=fold.label_delay_days + 1)
    # NaT, a customer without a fraud, compares as False
    known = rows["event_time"].dt.floor("D").to_numpy() >= known_from.reindex(rows["customer"]).to_numpy()
    kept: pd.DataFrame = rows.loc[~known]
    return kept
