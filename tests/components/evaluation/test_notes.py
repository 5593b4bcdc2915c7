"""What is said of the rows behind the figures."""

from typing import Any

import pandas as pd
import pytest

from nightshift.config.tabular import TabularEvaluationGate
from nightshift.contracts.evaluation import UnseenValues
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.preprocessing import Inputs
from nightshift.tasks.tabular.notes import notes, unseen
from nightshift_testkit import packages

INPUTS = Inputs(numeric=["amount"], categorical={"Land": ["", "BE", "FR"], "channel": ["web"]})
GATE = TabularEvaluationGate(top_k=2)


def model(**changes: Any) -> ModelPackage:
    validation = {"first": "2024-03-10", "last": "2024-03-11", "rows": 5, "open_days": 2, "positives": 1}
    return packages.manifest({"trees": b""}, INPUTS, packages.lineage(**{"validation": validation} | changes))


@pytest.fixture
def rows() -> pd.DataFrame:
    """Two days of two rows, nothing special about them."""
    times = pd.to_datetime(["2024-03-18", "2024-03-18", "2024-03-19", "2024-03-19"])
    frame = pd.DataFrame({"event_time": times, "amount": 1.0, "Land": ["BE", "FR", "", "BE"], "channel": "web"})
    return frame.assign(label=pd.array([1, 0, 1, 0], dtype="Int8"))


def test_ordinary_rows_need_no_note(rows: pd.DataFrame) -> None:
    assert unseen(rows, INPUTS) == {}
    assert notes(rows, model(), GATE) == []


def test_values_that_training_never_saw_are_counted_by_column(rows: pd.DataFrame) -> None:
    rows["Land"] = ["LU", "LU", "MC", "BE"]

    assert unseen(rows, INPUTS) == {"Land": UnseenValues(distinct=2, rows=3, share=0.75)}
    (note,) = notes(rows, model(), GATE)
    assert note.startswith("Land: 3 of 4 test rows (75.0%) hold 2 values that are not among the model's 3 categories")


def test_numbers_that_are_missing_are_counted_by_column(rows: pd.DataFrame) -> None:
    rows.loc[0, "amount"] = None
    manifest = packages.manifest({"trees": b""}, INPUTS.model_copy(update={"nullable": ["amount"]}), model().lineage)

    (note,) = notes(rows, manifest, GATE)
    assert note.startswith("amount: missing in 1 of 4 test rows (25.0%); ")


def test_columns_that_were_constant_in_training_are_named(rows: pd.DataFrame) -> None:
    (note,) = notes(rows, model(constant=["pressure", "site"]), GATE)

    assert note.endswith("nothing was learned from: pressure, site.")


def test_days_without_a_positive_are_counted(rows: pd.DataFrame) -> None:
    rows["label"] = pd.array([1, 0, 0, 0], dtype="Int8")

    (note,) = notes(rows, model(), GATE)
    assert note.startswith("1 of 2 test days hold no positive, the first is 2024-03-19; ")


@pytest.mark.parametrize(
    ("rows_seen", "open_days", "noted"), [(4, 2, True), (5, 2, False), (2, 1, True), (3, 1, False)]
)
def test_a_top_k_that_takes_every_event_of_an_open_day_is_called_out(
    rows: pd.DataFrame, rows_seen: int, open_days: int, noted: bool
) -> None:
    days = {"first": "2024-03-10", "last": "2024-03-11", "open_days": open_days}
    written = notes(rows, model(validation=days | {"rows": rows_seen, "positives": 1}), GATE)

    assert bool(written) == noted
    assert all("evaluation.top_k is 2, and the validation days hold 2 events per open day" in note for note in written)
