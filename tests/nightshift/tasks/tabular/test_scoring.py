import numpy as np
import pandas as pd
import pytest

from nightshift.contracts.package import DecisionRule, ModelPackage
from nightshift.runtime.errors import UserError
from nightshift.tasks.tabular.scoring import score_rows
from nightshift_testkit import packages

ROWS = pd.DataFrame(
    {
        "event_id": ["b", "a", "c"],
        "event_time": pd.to_datetime(["2024-03-20 01:00", "2024-03-20 02:00", "2024-03-20 03:00"]),
        "amount": [0.2, 0.7, 0.9],
    }
)


def model(threshold: float) -> ModelPackage:
    return packages.manifest({"only": b""}, decision=DecisionRule(threshold=threshold))


def score(rows: pd.DataFrame) -> np.ndarray:
    return rows["amount"].to_numpy(np.float32)


def test_each_event_keeps_its_place_and_gets_a_score_and_a_decision() -> None:
    frame = score_rows(ROWS, model(0.75), score)

    assert list(frame) == ["event_id", "event_time", "score", "flagged"]
    assert frame["event_id"].tolist() == ["b", "a", "c"]
    assert frame["score"].dtype == np.float32
    assert frame["flagged"].tolist() == [False, False, True]


def test_a_score_is_compared_as_the_endpoint_does_it() -> None:
    # 0.7 as float32 is a little less than 0.7
    assert score_rows(ROWS, model(0.7), score)["flagged"].tolist() == [False, False, True]
    assert score_rows(ROWS, model(float(np.float32(0.7))), score)["flagged"].tolist() == [False, True, True]


def test_an_input_that_the_features_lack_is_named() -> None:
    with pytest.raises(UserError, match="needs input 'amount', which the features lack; train again"):
        score_rows(ROWS.drop(columns="amount"), model(0.5), score)
