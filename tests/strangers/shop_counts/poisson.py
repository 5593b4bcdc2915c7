"""The regression, its graph, and how wrong it is."""

from functools import partial
from typing import Any

import numpy as np
from onnx import helper
from sklearn.linear_model import PoissonRegressor

from nightshift.contracts.package import INPUT
from nightshift.stats import bootstrap
from nightshift.stats.comparison import Floats
from nightshift.tabular.scaler import Matrix, Scaler
from nightshift.tasks.fitting import FitSpec, Fitted, fit_estimator
from nightshift.tasks.onnx_export import of_rows


def fit(spec: FitSpec, matrix: Matrix, counts: Floats) -> Fitted:
    scaler = Scaler.fitted(matrix)
    model = fit_estimator(PoissonRegressor, spec, {"alpha": 1e-3, "max_iter": 1000}, scaler.apply(matrix), counts)
    return Fitted(partial(_graph, scaler, model), lambda rows: model.predict(scaler.apply(rows)))


def _graph(scaler: Scaler, model: Any) -> bytes:
    weights, bias = model.coef_.astype(np.float32)[:, None], np.array([model.intercept_], np.float32)
    nodes = [
        helper.make_node("Sub", [INPUT, "mean"], ["centered"]),
        helper.make_node("Div", ["centered", "scale"], ["scaled"]),
        helper.make_node("Gemm", ["scaled", "weights", "bias"], ["log"]),
        helper.make_node("Exp", ["log"], ["column"]),
    ]
    constants = {"mean": scaler.mean, "scale": scaler.scale, "weights": weights, "bias": bias}
    return of_rows(nodes, len(scaler.mean), constants)


def deviances(counts: Floats, rates: Floats) -> Floats:
    rates = np.maximum(rates.astype(float), 1e-6)
    return 2 * (counts * np.log(np.maximum(counts, 1) / rates) - counts + rates)


def metrics(counts: Floats, rates: Floats) -> dict[str, float]:
    absolute = float(np.abs(counts - rates).mean())
    return {"poisson_deviance": float(deviances(counts, rates).mean()), "mean_absolute_error": absolute}


def resampled(counts: Floats, rates: Floats) -> Floats:
    return bootstrap.mean(np.zeros(len(counts), int), deviances(counts, rates))
