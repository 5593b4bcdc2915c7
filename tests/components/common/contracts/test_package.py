"""A model on disk: what it takes, what it is identified by, what it scores."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from components.common import storage
from components.common.contracts import package
from components.common.contracts.package import Graph, Inputs, Package, Scorer
from components.common.errors import UserError
from tests.components import samples

WEIGHTS = {"first": [1.0, 0.0], "second": [0.25, 0.5]}
ROWS = pd.DataFrame({"risk": [8.0, 16.0], "amount": [1.0, 2.0], "unused": ["x", "y"]})


def test_columns_are_taken_by_name_numbers_first_and_categories_one_hot():
    inputs = Inputs(["amount", "risk"], {"channel": ["shop", "web"]})
    rows = ROWS.assign(channel=["web", "shop"])

    matrix = inputs.matrix(rows)

    assert matrix.dtype == np.float32
    assert matrix.tolist() == [[1, 8, 0, 1], [2, 16, 1, 0]]
    assert inputs.columns == ["amount", "risk", "channel"]


@pytest.mark.parametrize("unseen", ["phone", None, ""])
def test_a_category_not_seen_in_training_is_all_zeros(unseen):
    rows = pd.DataFrame({"channel": pd.array(["shop", unseen], dtype="string")})

    assert Inputs([], {"channel": ["shop", "web"]}).matrix(rows).tolist() == [[1, 0], [0, 0]]


def test_the_categories_of_training_are_sorted_and_a_missing_value_is_none_of_them():
    rows = pd.DataFrame({"channel": pd.array(["web", None, "shop", "web"], dtype="string")})

    assert Inputs.seen_in(rows, [], ["channel"]).categorical == {"channel": ["shop", "web"]}


def test_of_too_many_categories_the_most_frequent_are_kept_whatever_the_order_of_rows():
    names = [f"c{i:03}" for i in range(120)]
    column = pd.Series(names + names[100:], dtype="string")  # the last twenty occur twice
    kept = [
        Inputs.seen_in(pd.DataFrame({"c": values}), [], ["c"]).categorical["c"] for values in (column, column[::-1])
    ]

    assert kept[0] == kept[1] == names[:80] + names[100:]


def test_what_is_saved_is_loaded_again(tmp_path):
    reference = ROWS.assign(label=[0, 1], score=[0.5, 0.75])
    saved = samples.write_model(tmp_path / "model", WEIGHTS, reference)

    assert package.load(str(tmp_path / "model")) == saved
    pd.testing.assert_frame_equal(package.read_reference(str(tmp_path / "model")), reference)
    assert storage.read_json(str(tmp_path / "model" / "model.json"))["sha256"] == saved.sha256


def test_a_model_that_was_loaded_sees_its_categories_in_the_same_place_as_in_training(tmp_path):
    rows = pd.DataFrame({"zone": ["a", "b"], "channel": ["web", "shop"], "risk": [0.0, 1.0]})
    trained = Inputs.seen_in(rows, ["risk"], ["zone", "channel"])
    storage.write_json(str(tmp_path / "inputs.json"), dataclasses.asdict(trained))
    loaded = Inputs(**storage.read_json(str(tmp_path / "inputs.json")))

    assert loaded.matrix(rows).tolist() == trained.matrix(rows).tolist() == [[0, 0, 1, 1, 0], [1, 1, 0, 0, 1]]


def test_a_model_scores_with_the_selected_candidate_unless_another_is_named(tmp_path):
    model = samples.write_model(tmp_path / "model", WEIGHTS)

    assert Scorer(str(tmp_path / "model"), model).score(ROWS).tolist() == [1, 2]
    assert Scorer(str(tmp_path / "model"), model, "second", threads=2).score(ROWS).tolist() == [4.25, 8.5]


def test_a_graph_that_is_not_the_one_of_the_manifest_is_refused(tmp_path):
    model = samples.write_model(tmp_path / "model", WEIGHTS)
    (tmp_path / "model" / "first.onnx").write_bytes(samples.linear([2.0, 0.0]))

    with pytest.raises(UserError, match=r"first\.onnx is not the file that model\.json names"):
        Scorer(str(tmp_path / "model"), model)


def test_a_folder_without_a_manifest_is_no_model(tmp_path):
    with pytest.raises(UserError, match=r"model\.json does not exist"):
        package.load(str(tmp_path))


def test_a_graph_scores_one_number_a_row():
    scores = Graph(samples.linear([1.0, -1.0])).score(np.array([[3, 1]], dtype=np.float32))

    assert scores.shape == (1,)
    assert scores.dtype == np.float32


def model(**changes: object) -> Package:
    entry = {"file": "a.onnx", "sha256": "0" * 64, "seconds": 1.5}
    base = Package(Inputs(["amount"], {}), "a", {"a": entry}, 0.5, {"device": "cpu"})
    return dataclasses.replace(base, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": Inputs(["risk"], {})},
        {"selected": "b"},
        {"threshold": 0.6},
        {"candidates": {"a": {"file": "a.onnx", "sha256": "1" * 64, "seconds": 1.5}}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_identity_of_a_model_covers_everything_that_scores(changes):
    assert model(**changes).sha256 != model().sha256


def test_the_identity_of_a_model_does_not_cover_how_long_it_took_or_where():
    later = {"a": {"file": "a.onnx", "sha256": "0" * 64, "seconds": 99.0}}

    assert model(candidates=later, details={"device": "cuda"}).sha256 == model().sha256
