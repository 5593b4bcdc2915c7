import numpy as np
import pandas as pd
import pytest

from components.common.contracts.package import DecisionRule, ModelPackage
from components.common.errors import UserError
from components.scoring import core
from tests import packages

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


def test_each_event_keeps_its_place_and_gets_a_score_a_decision_and_the_version() -> None:
    found = core.scored(ROWS, model(0.75), "3", score)

    assert list(found) == ["event_id", "event_time", "score", "flagged", "model_version"]
    assert found["event_id"].tolist() == ["b", "a", "c"]
    assert found["score"].dtype == np.float32
    assert found["flagged"].tolist() == [False, False, True]
    assert set(found["model_version"]) == {"3"}


def test_a_score_is_compared_as_the_endpoint_does_it() -> None:
    # 0.7 as float32 is a little less than 0.7
    assert core.scored(ROWS, model(0.7), "3", score)["flagged"].tolist() == [False, False, True]
    assert core.scored(ROWS, model(float(np.float32(0.7))), "3", score)["flagged"].tolist() == [False, True, True]


def test_an_input_that_the_features_lack_is_named() -> None:
    with pytest.raises(UserError, match="needs input 'amount', which the features lack; train again"):
        core.scored(ROWS.drop(columns="amount"), model(0.5), "3", score)
