"""From frames to a model's matrix, by name."""

import numpy as np
import pandas as pd
import pytest

from nightshift.contracts.preprocessing import Inputs
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.tabular.inputs import FrameScorer, matrix, seen_in
from tests.components import samples

WEIGHTS = {"first": [1.0, 0.0], "second": [0.25, 0.5]}
ROWS = pd.DataFrame({"risk": [8.0, 16.0], "amount": [1.0, 2.0], "unused": ["x", "y"]})


def test_columns_are_taken_by_name_numbers_first_and_categories_one_hot():
    inputs = Inputs(numeric=["amount", "risk"], categorical={"channel": ["shop", "web"]})

    encoded = matrix(inputs, ROWS.assign(channel=["web", "shop"]))

    assert encoded.dtype == np.float32
    assert encoded.tolist() == [[1, 8, 0, 1], [2, 16, 1, 0]]
    assert (inputs.columns, inputs.width) == (["amount", "risk", "channel"], 4)


@pytest.mark.parametrize("number", [np.nan, None])
def test_a_missing_number_is_nan_where_it_may_be_missing_and_refused_elsewhere(number):
    inputs = Inputs(numeric=["amount", "risk"], categorical={}, nullable=["risk"])

    assert np.isnan(matrix(inputs, ROWS.assign(risk=number))).tolist() == [[False, True]] * 2
    with pytest.raises(UserError, match="input 'amount' is missing in some rows"):
        matrix(inputs, ROWS.assign(amount=number))


@pytest.mark.parametrize("unseen", ["phone", None, ""])
def test_a_category_not_seen_in_training_is_all_zeros(unseen):
    rows = pd.DataFrame({"channel": pd.array(["shop", unseen], dtype="string")})

    inputs = Inputs(numeric=[], categorical={"channel": ["shop", "web"]})
    assert matrix(inputs, rows).tolist() == [[1, 0], [0, 0]]


def test_the_categories_of_training_are_sorted_and_a_missing_value_is_none_of_them():
    rows = pd.DataFrame({"channel": pd.array(["web", None, "shop", "web"], dtype="string")})

    assert seen_in(rows, [], ["channel"]).categorical == {"channel": ["shop", "web"]}


def test_of_too_many_categories_the_most_frequent_are_kept_whatever_the_order_of_rows():
    names = [f"c{i:03}" for i in range(120)]
    column = pd.Series(names + names[100:], dtype="string")  # the last twenty occur twice
    kept = [seen_in(pd.DataFrame({"c": values}), [], ["c"]).categorical["c"] for values in (column, column[::-1])]

    assert kept[0] == kept[1] == names[:80] + names[100:]


def test_a_model_that_was_loaded_sees_its_categories_in_the_same_place_as_in_training():
    rows = pd.DataFrame({"zone": ["a", "b"], "channel": ["web", "shop"], "risk": [0.0, 1.0]})
    trained = seen_in(rows, ["risk"], ["zone", "channel"])
    # files hold mappings in the order of their keys
    loaded = Inputs(numeric=["risk"], categorical=dict(sorted(trained.categorical.items())))

    assert matrix(loaded, rows).tolist() == matrix(trained, rows).tolist() == [[0, 0, 1, 1, 0], [1, 1, 0, 0, 1]]


def test_a_model_scores_with_the_selected_candidate_unless_another_is_named(tmp_path):
    model = samples.write_model(tmp_path / "model", WEIGHTS)

    assert FrameScorer(str(tmp_path / "model"), model).score(ROWS).tolist() == [1, 2]
    assert FrameScorer(str(tmp_path / "model"), model, "second").score(ROWS).tolist() == [4.25, 8.5]


def test_a_graph_that_is_not_the_one_of_the_manifest_is_refused(tmp_path):
    model = samples.write_model(tmp_path / "model", WEIGHTS)
    (tmp_path / "model" / "first.onnx").write_bytes(samples.linear([2.0, 0.0]))

    with pytest.raises(UserError, match=r"first\.onnx is not the file that model\.json names"):
        FrameScorer(str(tmp_path / "model"), model)


def test_a_graph_scores_one_number_a_row():
    scores = Graph(samples.linear([1.0, -1.0])).score(np.array([[3, 1]], dtype=np.float32))

    assert scores.shape == (1,)
    assert scores.dtype == np.float32
