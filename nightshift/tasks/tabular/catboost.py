"""CatBoost's oblivious trees; with `early_stopping_rounds` the validation days say how many."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.config.parameters import CatBoostParameters
from nightshift.config.section import check_parameters
from nightshift.runtime.errors import UserError, require_extra
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.fitting import FitSpec, Fitted
from nightshift.tasks.onnx_export import Forest, Tree
from nightshift.tasks.tabular.estimators import Labels, explained_forest

ROUNDS = "n_estimators"

Cover = npt.NDArray[np.float64]


def fit(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit CatBoost's trees; see `estimators.fit`."""
    with require_extra(f"{spec.field} of kind catboost", "catboost"):
        import catboost
    parameters = check_parameters(CatBoostParameters, spec.field, spec.parameters).model_dump(exclude_none=True)
    patience = parameters.pop("early_stopping_rounds", 0)
    is_stopped = bool(patience and spec.validation)
    own = {"random_seed": spec.seed, "thread_count": spec.threads, "verbose": False, "allow_writing_files": False}
    stopping = {"eval_set": spec.validation, "early_stopping_rounds": patience} if is_stopped else {}
    model = catboost.CatBoostClassifier(
        **parameters | own | {name: int(rounds) for name, rounds in spec.choices.items()}
    )
    try:
        model.fit(matrix, labels, **stopping)
    except catboost.CatBoostError as error:
        raise UserError(f"{spec.field}: CatBoost refuses them: {' '.join(str(error).split())}") from None
    return explained_forest(
        lambda: _read_forest(model, matrix.shape[1], spec.nullable),
        lambda rows: model.predict_proba(rows)[:, 1],
        {ROUNDS: model.tree_count_} if is_stopped else spec.choices,
    )


def _read_forest(model: Any, width: int, nullable: bool) -> Forest:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.json")
        model.save_model(str(file), format="json")
        content = json.loads(file.read_text())
    scale, (bias,) = content["scale_and_bias"]
    last = {
        feature["flat_feature_index"]: feature["nan_value_treatment"] == "AsTrue"
        for feature in content["features_info"]["float_features"]
    }
    trees = [_tree(tree, scale, last, nullable) for tree in content["oblivious_trees"]]
    return Forest(trees, width, "BRANCH_LEQ", float(bias), "Sigmoid")


def _tree(tree: Mapping[str, Any], scale: float, missing_last: Mapping[int, bool], nullable: bool) -> Tree:
    """Return an oblivious tree as a full binary one, level by level; all nodes of a level ask the same."""
    splits, values = tree["splits"] or [], np.array(tree["leaf_values"]) * scale
    depth = len(splits)
    inner, leaves = np.arange(2**depth - 1), np.arange(2**depth)
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    # the first split is the lowest bit of CatBoost's number of a leaf, and the highest here
    number = sum((leaves >> depth - 1 - at & 1) << at for at in range(depth)) + 0 * leaves
    end = np.full(len(leaves), -1)
    features = np.array([split["float_feature_index"] for split in splits], np.int64)
    borders = np.array([split["border"] for split in splits], np.float32)
    missing_left = np.array([not missing_last[feature] for feature in features], bool)
    return Tree(
        np.concatenate([2 * inner + 1, end]),
        np.concatenate([2 * inner + 2, end]),
        np.concatenate([features[level], end]),
        np.concatenate([borders[level], np.zeros(len(leaves), np.float32)]),
        np.concatenate([np.zeros(len(inner)), values[number]]).astype(np.float32),
        np.concatenate([missing_left[level], end > 0]) if nullable else None,
        _count_rows(np.array(tree["leaf_weights"], np.float64)[number]),
    )


def _count_rows(leaves: Cover) -> Cover:
    """Return the weight of the rows of each node of a full binary tree, level by level, from that of its leaves."""
    levels = [leaves]
    while len(levels[0]) > 1:
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    return np.concatenate(levels)
