"""The kinds of models of classes: each is fitted by its library and handed back as an ONNX graph.

A class that no training row has gets a score of 0, or next to it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from nightshift.config.multiclass import MulticlassKind
from nightshift.items.metrics import Labels, Scores
from nightshift.tabular.scaler import Matrix, Scaler
from nightshift.tasks import onnx_export
from nightshift.tasks.classification.linear import ITERATIONS, NEVER, Line
from nightshift.tasks.fitting import FitSpec, Fitted, fit_estimator
from nightshift.tasks.onnx_export import Tree
from nightshift.tasks.tabular.estimators import read_trees, rounded_down

Floats = npt.NDArray[np.floating[Any]]
Numbers = npt.NDArray[np.int64]


def fit(kind: MulticlassKind, spec: FitSpec, matrix: Matrix, labels: Labels, classes: int) -> Fitted:
    """Fit a model of a kind.

    Args:
        kind: as in the config.
        spec: parameters and circumstances.
        matrix: inputs, float32 (n, d).
        labels: numbers of classes, (n,), of two or more.
        classes: how many there are.

    Raises:
        UserError: when the library does not know a parameter, or refuses its value.
    """
    return FITTERS[kind](spec, matrix, labels, classes)


def check(kind: MulticlassKind, spec: FitSpec, matrix: Matrix, labels: Labels, classes: int) -> None:
    """Have a library take the parameters: it fits one tree, or the like, and exports it.

    Raises:
        UserError: when the library does not know a parameter, or refuses its value.
    """
    trees = spec.parameters.get("n_estimators")
    small = {"n_estimators": 1} if isinstance(trees, int) and trees > 0 else {}
    fit(kind, replace(spec, parameters={**spec.parameters, **small}), matrix, labels, classes).export()


def _xgboost(spec: FitSpec, matrix: Matrix, labels: Labels, classes: int) -> Fitted:
    present, numbers = np.unique(labels, return_inverse=True)
    own: dict[str, Any] = {"random_state": spec.seed, "n_jobs": spec.threads, "device": spec.device}
    own |= {"objective": "multi:softprob", "num_class": len(present)}
    model = fit_estimator(xgboost.XGBClassifier, spec, own, matrix, numbers)
    return Fitted(
        lambda: _boosted_graph(model, matrix.shape[1], spec.nullable, present, classes),
        lambda rows: _spread(model.predict_proba(rows), present, classes, 0.0),
    )


def _boosted_graph(model: Any, width: int, nullable: bool, present: Numbers, classes: int) -> bytes:
    learner = json.loads(model.get_booster().save_raw("json"))["learner"]
    owners = present[learner["gradient_booster"]["model"]["tree_info"]]
    trees = [
        replace(tree, value=np.outer(tree.value, np.arange(classes) == owner).astype(np.float32))
        for tree, owner in zip(read_trees(learner, nullable), owners, strict=True)
    ]
    # logits; older versions have one for all classes, which changes no probability
    logits = np.array(learner["learner_model_param"]["base_score"].strip("[]").split(","), float)
    base = _spread(np.broadcast_to(logits, len(present))[None], present, classes, NEVER)[0]
    return onnx_export.forest(trees, width, "BRANCH_LT", base.tolist(), "Softmax")


def _random_forest(spec: FitSpec, matrix: Matrix, labels: Labels, classes: int) -> Fitted:
    own = {"random_state": spec.seed, "n_jobs": spec.threads}
    model = fit_estimator(RandomForestClassifier, spec, own, matrix, labels)
    return Fitted(
        lambda: _forest_graph(model, matrix.shape[1], spec.nullable, classes),
        lambda rows: _spread(model.predict_proba(rows), model.classes_, classes, 0.0),
    )


def _forest_graph(model: Any, width: int, nullable: bool, classes: int) -> bytes:
    trees = [_forest_tree(estimator.tree_, model, nullable, classes) for estimator in model.estimators_]
    return onnx_export.forest(trees, width, "BRANCH_LEQ", [0.0] * classes, "Identity")


def _forest_tree(tree: Any, model: Any, nullable: bool, classes: int) -> Tree:
    shares = _spread(tree.value[:, 0] / len(model.estimators_), model.classes_, classes, 0.0).astype(np.float32)
    missing_left = tree.missing_go_to_left if nullable else None
    return Tree(
        tree.children_left, tree.children_right, tree.feature, rounded_down(tree.threshold), shares, missing_left
    )


def _logistic_regression(spec: FitSpec, matrix: Matrix, labels: Labels, classes: int) -> Fitted:
    scaler = Scaler.fit(matrix, spec.nullable)
    own = {"random_state": spec.seed, "max_iter": ITERATIONS}
    model = fit_estimator(LogisticRegression, spec, own, scaler.apply(matrix).astype(np.float64), labels)
    line = Line.from_fitted(model, classes)
    layer = (line.weights.T.astype(np.float32), line.bias.astype(np.float32))
    return Fitted(
        lambda: onnx_export.dense(scaler, [layer], "Softmax"),
        lambda rows: _spread(model.predict_proba(scaler.apply(rows).astype(np.float64)), model.classes_, classes, 0.0),
    )


def _spread(columns: Floats, present: Numbers, classes: int, rest: float) -> Scores:
    """Return columns of the classes that are there, (n, present), as columns of all, (n, classes)."""
    spread = np.full((len(columns), classes), rest)
    spread[:, present] = columns
    return spread


FITTERS: Mapping[MulticlassKind, Callable[[FitSpec, Matrix, Labels, int], Fitted]] = MappingProxyType(
    {
        MulticlassKind.XGBOOST: _xgboost,
        MulticlassKind.LOGISTIC_REGRESSION: _logistic_regression,
        MulticlassKind.RANDOM_FOREST: _random_forest,
    }
)
