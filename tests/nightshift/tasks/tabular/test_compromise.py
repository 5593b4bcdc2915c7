"""Customers known as compromised before a test day, who are left out of the test rows."""

from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from nightshift.config import parse
from nightshift.config.tabular import TabularProtocol
from nightshift.data import splits
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError
from nightshift.tasks.tabular import compromise
from nightshift.tasks.tabular.training import require_both_classes

ROOT = Path(__file__).parents[4]
RAW = ROOT.parent / "shared" / "data" / "handbook" / "raw"
DATE = date(2018, 8, 14)


def config(**protocol: int) -> Any:
    """The handbook's use case: training 07-25 to 07-31, test 08-08 to 08-14."""
    value = yaml.safe_load((ROOT / "pipelines" / "configs" / "handbook.yaml").read_text())
    return parse(value | {"protocol": value["protocol"] | protocol})


def frame(*rows: tuple[str, str, int | None]) -> pd.DataFrame:
    """Rows from (time, customer, label)."""
    return pd.DataFrame(
        {
            "event_time": pd.Series([pd.Timestamp(time) for time, _, _ in rows], dtype="datetime64[us]"),
            "customer": [customer for _, customer, _ in rows],
            "label": pd.array([label for _, _, label in rows], dtype="Int8"),
        }
    )


FOLD = splits.plan(config(), DATE).test


def kept(*rows: tuple[str, str, int | None], drop: bool = True) -> list[str]:
    protocol = TabularProtocol(drop_compromised=drop)
    return compromise.test_rows(frame(*rows), FOLD, protocol)["event_time"].dt.strftime("%m-%d").tolist()


def test_a_fraud_is_known_the_day_after_the_delay_and_not_a_day_sooner():
    fraud = ("2018-08-02 23:59:59", "ann", 1)
    assert kept(fraud, ("2018-08-09", "ann", 0), ("2018-08-10", "ann", 0)) == ["08-09"]


def test_the_time_of_day_of_a_fraud_and_of_a_test_row_does_not_matter():
    assert kept(("2018-08-02 00:00:00", "ann", 1), ("2018-08-09 23:59:59", "ann", 0)) == ["08-09"]
    assert kept(("2018-08-02 23:59:59", "ann", 1), ("2018-08-10 00:00:00", "ann", 0)) == []


def test_a_customer_defrauded_while_training_is_left_out_of_the_whole_test():
    # on 07-31, the last training day, too: 07-31 + 7 + 1 is the first test day
    test = [(f"2018-08-{day:02}", "ann", 0) for day in range(8, 15)]
    assert kept(("2018-07-25", "ann", 1), *test) == []
    assert kept(("2018-07-31 23:59:59", "ann", 1), *test) == []


def test_a_fraud_before_the_training_days_is_forgotten():
    assert kept(("2018-07-24 23:59:59", "ann", 1), ("2018-08-08", "ann", 0)) == ["08-08"]


def test_a_longer_training_need_not_remember_compromises_for_longer():
    longer = config(train_days=28, compromised_days=7)
    fold = splits.plan(longer, DATE).test
    assert fold.train.first == date(2018, 7, 4)
    rows = frame(("2018-07-24", "ann", 1), ("2018-08-08", "ann", 0), ("2018-07-25", "bob", 1), ("2018-08-08", "bob", 0))
    assert compromise.test_rows(rows, fold, longer.protocol)["customer"].tolist() == ["ann"]


def test_compromises_older_than_the_training_days_are_refused():
    with pytest.raises(UserError, match="'compromised_days' is 8, over 'train_days', 7"):
        config(compromised_days=8)


def test_where_nobody_was_defrauded_every_test_row_stays():
    assert kept(("2018-07-25", "ann", 0), ("2018-08-08", "ann", 0), ("2018-08-09", "bob", None)) == ["08-08", "08-09"]


def test_the_first_of_several_frauds_decides():
    positives = [("2018-08-01", "ann", 1), ("2018-08-06", "ann", 1)]
    assert kept(*positives, ("2018-08-08", "ann", 0), ("2018-08-09", "ann", 0)) == ["08-08"]


def test_only_the_customers_own_frauds_count_and_a_null_label_is_none():
    assert kept(("2018-07-25", "eve", 1), ("2018-07-25", "ann", None), ("2018-08-08", "ann", 1)) == ["08-08"]


def test_without_the_rule_every_row_of_the_test_days_stays():
    rows = [("2018-07-25", "ann", 1), ("2018-08-07", "ann", 0), ("2018-08-08", "ann", 0), ("2018-08-15", "ann", 0)]
    assert kept(*rows, drop=False) == ["08-08"]


@pytest.mark.parametrize(
    ("compromised", "says"),
    [(0, "0 positives in 0 rows, and a model"), (9, "0 rows, without 9 .*, or set protocol.drop_compromised: false")],
)
def test_test_rows_that_the_rule_has_emptied_name_it(compromised: int, says: str):
    nothing = frame(("2018-08-08", "ann", 0)).head(0)
    with pytest.raises(UserError, match=says) as refused:
        require_both_classes(nothing, FOLD.test, compromised)
    assert ("drop_compromised" in str(refused.value)) == bool(compromised)


@pytest.mark.skipif(not RAW.exists(), reason="needs the published data in ../shared/data/handbook")
def test_the_published_baseline_week_has_its_published_row_counts():
    fold = splits.plan(config(), DATE).test
    names = {"TX_DATETIME": "event_time", "CUSTOMER_ID": "customer", "TX_FRAUD": "label"}
    files = [RAW / f"{day}.parquet" for day in Days(fold.train.first, fold.test.last)]
    rows = pd.concat([pd.read_parquet(file, columns=list(names)) for file in files]).rename(columns=names)
    train, test = splits.rows_of(rows, fold.train), compromise.test_rows(rows, fold, TabularProtocol())
    assert (len(train), train["label"].sum()) == (67_240, 598)
    assert (len(test), test["label"].sum()) == (58_264, 385)
