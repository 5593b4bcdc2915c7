"""The kinds of models of numbers: each is fitted by its library and handed back as an ONNX graph."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import PoissonRegressor, Ridge, TweedieRegressor
from sklearn.neural_network import MLPRegressor

from nightshift.config.regression import RegressorKind
from nightshift.runtime.errors import UserError, check_names
from nightshift.tabular.scaler import Matrix, Scaler
from nightshift.tasks import onnx_export
from nightshift.tasks.fitting import FitSpec, Fitted, fit_estimator
from nightshift.tasks.onnx_export import Forest, Tree
from nightshift.tasks.tabular.estimators import explained_forest, read_boosted_trees, rounded_down, split_layers

Labels = npt.NDArray[np.float64]

SQUARED, QUANTILE = "reg:squarederror", "reg:quantileerror"
LINKS = MappingProxyType(
    {SQUARED: "Identity", "reg:absoluteerror": "Identity", QUANTILE: "Identity", "count:poisson": "Exp",
     "reg:tweedie": "Exp"}
)  # fmt: skip  # objective of XGBoost -> what its trees' sum goes through


def fit(kind: RegressorKind, spec: FitSpec, matrix: Matrix, labels: Labels, quantile: float) -> Fitted:
    """Fit a model of a kind.

    Args:
        kind: as in the config.
        spec: parameters and circumstances.
        matrix: inputs, float32 (n, d).
        labels: float64 (n,).
        quantile: that reg:quantileerror predicts.

    Raises:
        UserError: when the library does not know a parameter, or refuses its value or a label.
    """
    if kind is RegressorKind.XGBOOST:
        return _xgboost(spec, matrix, labels, quantile)
    return FITTERS[kind](spec, matrix, labels)


def check(kind: RegressorKind, spec: FitSpec, matrix: Matrix, labels: Labels, quantile: float) -> None:
    """Have a library take the parameters: it fits one tree, or the like, and exports it.

    Raises:
        UserError: when the library does not know a parameter, or refuses its value or a label.
    """
    trees = spec.parameters.get("n_estimators")
    small = {"n_estimators": 1} if isinstance(trees, int) and trees > 0 else {}
    small |= {"max_iter": 2} if kind is RegressorKind.MLP else {}
    fit(kind, replace(spec, parameters={**spec.parameters, **small}), matrix, labels, quantile).export()


def require_not_negative(field: str, labels: Labels, why: str) -> None:
    """Check that no label is below 0.

    Raises:
        UserError: naming the lowest.
    """
    if len(labels) and labels.min() < 0:
        raise UserError(
            f"{field}: {why} takes labels from 0, and the lowest is {labels.min():g}; write objective: {SQUARED} of "
            "kind xgboost, or kind: ridge"
        )


def _xgboost(spec: FitSpec, matrix: Matrix, labels: Labels, quantile: float) -> Fitted:
    objective = spec.parameters.get("objective", SQUARED)
    if objective not in LINKS:
        raise UserError(f"{spec.field}.objective: is {objective!r}; allowed: {', '.join(LINKS)}")
    if LINKS[objective] == "Exp":
        require_not_negative(f"{spec.field}.objective", labels, str(objective))
    own: dict[str, Any] = {"random_state": spec.seed, "n_jobs": spec.threads, "device": spec.device}
    own |= {"objective": objective} | ({"quantile_alpha": quantile} if objective == QUANTILE else {})
    spec = replace(spec, parameters={name: value for name, value in spec.parameters.items() if name != "objective"})
    model = fit_estimator(xgboost.XGBRegressor, spec, own, matrix, labels)
    return explained_forest(
        lambda: _read_boosting(model, matrix.shape[1], spec.nullable, LINKS[objective]), model.predict
    )


def _read_boosting(model: Any, width: int, nullable: bool, link: str) -> Forest:
    learner = json.loads(model.get_booster().save_raw("json"))["learner"]
    trees, base = read_boosted_trees(learner, nullable)
    return Forest(trees, width, "BRANCH_LT", float(np.log(base)) if link == "Exp" else base, link)


def _random_forest(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    own = {"random_state": spec.seed, "n_jobs": spec.threads}
    model = fit_estimator(RandomForestRegressor, spec, own, matrix, labels)
    return explained_forest(lambda: _read_forest(model, matrix.shape[1], spec.nullable), model.predict)


def _read_forest(model: Any, width: int, nullable: bool) -> Forest:
    trees = [_tree(estimator.tree_, len(model.estimators_), nullable) for estimator in model.estimators_]
    return Forest(trees, width, "BRANCH_LEQ", 0.0, "Identity")


def _tree(tree: Any, trees: int, nullable: bool) -> Tree:
    value = (tree.value[:, 0, 0] / trees).astype(np.float32)
    missing_left = tree.missing_go_to_left if nullable else None
    threshold, cover = rounded_down(tree.threshold), tree.weighted_n_node_samples
    return Tree(tree.children_left, tree.children_right, tree.feature, threshold, value, missing_left, cover)


def _linear(estimator: Any, link: str) -> Callable[[FitSpec, Matrix, Labels], Fitted]:
    """Return the fitter of a linear model, whose sum goes through a function."""

    def fit_line(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
        if link == "Exp":
            require_not_negative(spec.field.removesuffix(".parameters"), labels, f"kind {LINEAR_NAMES[estimator]}")
        scaler = Scaler.fit(matrix, spec.nullable)
        own = {} if estimator is Ridge else {"max_iter": 1000}
        line = fit_estimator(estimator, spec, own, scaler.apply(matrix).astype(np.float64), labels)
        layers = [(_row(line.coef_), np.array([line.intercept_], np.float32))]
        return Fitted(
            lambda: onnx_export.dense(scaler, layers, link),
            lambda rows: line.predict(scaler.apply(rows).astype(float)),
            split_margin=lambda: [split_layers(scaler, layers)],
        )

    return fit_line


def _row(weights: npt.NDArray[Any]) -> Matrix:
    return np.asarray(weights, np.float32).reshape(1, -1)


def _mlp(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit scikit-learn's network to standardized labels; its last layer gives them back in their unit."""
    known = set(MLPRegressor().get_params()) - {"activation", "loss"}  # the graph is written for relu
    check_names(spec.field, spec.parameters, known)
    scaler, mean, scale = Scaler.fit(matrix, spec.nullable), float(labels.mean()), float(labels.std()) or 1.0
    own = {"random_state": spec.seed, "hidden_layer_sizes": 64, "early_stopping": True}
    model = fit_estimator(MLPRegressor, spec, own, scaler.apply(matrix), (labels - mean) / scale)
    layers = [
        (np.asarray(weights.T, np.float32), np.asarray(bias, np.float32))
        for weights, bias in zip(model.coefs_, model.intercepts_, strict=True)
    ]
    weights, bias = layers.pop()
    layers.append((weights * np.float32(scale), bias * np.float32(scale) + np.float32(mean)))
    return Fitted(
        lambda: onnx_export.dense(scaler, layers, "Identity"),
        lambda rows: model.predict(scaler.apply(rows)) * scale + mean,
        split_margin=lambda: [split_layers(scaler, layers)],
    )


LINEAR_NAMES: Mapping[Any, str] = MappingProxyType({PoissonRegressor: "poisson", TweedieRegressor: "tweedie"})
FITTERS: Mapping[RegressorKind, Callable[[FitSpec, Matrix, Labels], Fitted]] = MappingProxyType(
    {
        RegressorKind.RIDGE: _linear(Ridge, "Identity"),
        RegressorKind.POISSON: _linear(PoissonRegressor, "Exp"),
        RegressorKind.TWEEDIE: _linear(TweedieRegressor, "Exp"),
        RegressorKind.RANDOM_FOREST: _random_forest,
        RegressorKind.MLP: _mlp,
    }
)
