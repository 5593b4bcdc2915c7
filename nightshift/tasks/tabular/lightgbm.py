"""LightGBM's trees; with `early_stopping_rounds` the validation days say how many."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.config.parameters import LightGBMParameters
from nightshift.config.section import check_parameters
from nightshift.runtime.errors import require_extra
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.fitting import FitSpec, Fitted
from nightshift.tasks.onnx_export import Forest, Tree
from nightshift.tasks.tabular.estimators import Labels, explained_forest, rounded_down

ROUNDS = "n_estimators"
LARGEST = float(np.finfo(np.float32).max)
ZERO = np.float32(1e-35)  # up to which, on both sides of 0, LightGBM takes a number for 0
BELOW_ZERO = np.nextafter(-ZERO, np.float32(-np.inf))
IS_NAN = 2  # how a node's numbers may be missing: as NaN; otherwise NaN counts as 0


def fit(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit LightGBM's trees; see `estimators.fit`."""
    with require_extra(f"{spec.field} of kind lightgbm", "lightgbm"):
        import lightgbm
    parameters = check_parameters(LightGBMParameters, spec.field, spec.parameters).model_dump(exclude_none=True)
    rounds, patience = int(spec.choices.get(ROUNDS, parameters.pop(ROUNDS))), parameters.pop("early_stopping_rounds", 0)
    own = {"objective": "binary", "seed": spec.seed, "num_threads": spec.threads, "verbosity": -1}
    own |= {"deterministic": True, "force_row_wise": True}  # whatever is faster on the machine adds up otherwise
    data, stopping = lightgbm.Dataset(matrix, labels), dict[str, Any]()
    if patience and spec.validation:
        stopping = {
            "valid_sets": [data.create_valid(*spec.validation)],
            "callbacks": [lightgbm.early_stopping(patience, verbose=False)],
        }
    booster = lightgbm.train(parameters | own, data, rounds, **stopping)
    width = matrix.shape[1]
    return explained_forest(
        lambda: Forest(_trees(booster, spec.nullable), width, "BRANCH_LEQ", 0.0, "Sigmoid"),
        booster.predict,
        {ROUNDS: booster.best_iteration} if stopping else spec.choices,
    )


def _trees(booster: Any, nullable: bool) -> list[Tree]:
    return [_tree(text, nullable) for text in booster.model_to_string().split("\nTree=")[1:]]


def _tree(text: str, nullable: bool) -> Tree:
    fields = {name: np.array(values.split()) for name, values in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)}
    none = np.zeros(0)
    leaves, inner = fields["leaf_value"].astype(np.float64), len(fields.get("split_feature", none))
    left, right, feature, kinds = (
        fields.get(name, none).astype(np.int64)
        for name in ("left_child", "right_child", "split_feature", "decision_type")
    )
    thresholds = _thresholds(fields.get("threshold", none).astype(np.float64))
    missing_left = np.where(kinds >> 2 & 3 == IS_NAN, kinds & 2 > 0, thresholds >= 0)
    end = np.full(len(leaves), -1)
    # the nodes, then the leaves, which LightGBM counts -1, -2 ...
    left, right = (np.concatenate([np.where(child < 0, inner + ~child, child), end]) for child in (left, right))
    return Tree(
        left,
        right,
        np.concatenate([feature, end]),
        np.concatenate([thresholds, np.zeros(len(leaves), np.float32)]),
        np.concatenate([np.zeros(inner), leaves]).astype(np.float32),
        np.concatenate([missing_left, end > 0]) if nullable else None,
        np.concatenate([fields.get(name, none).astype(np.float64) for name in ("internal_count", "leaf_count")]),
    )


def _thresholds(values: npt.NDArray[np.float64]) -> Matrix:
    rounded = rounded_down(values.clip(-LARGEST, LARGEST))
    return np.where(np.abs(rounded) > ZERO, rounded, np.where(values >= 0, ZERO, BELOW_ZERO))
