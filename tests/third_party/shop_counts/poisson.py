"""The regression, its graph, and how wrong its rates are."""

from functools import partial

import numpy as np
from onnx.helper import make_node
from sklearn.linear_model import PoissonRegressor

from nightshift.contracts.package import INPUT
from nightshift.stats import bootstrap
from nightshift.tabular.scaler import Scaler
from nightshift.tasks.fitting import Fitted, fit_estimator
from nightshift.tasks.onnx_export import of_rows


def fit(spec, matrix, counts):
    scaler = Scaler.fit(matrix)
    model = fit_estimator(PoissonRegressor, spec, {"alpha": 1e-3, "max_iter": 1000}, scaler.apply(matrix), counts)
    return Fitted(partial(_graph, scaler, model), lambda rows: model.predict(scaler.apply(rows)))


def _graph(scaler, model):
    weights, bias = model.coef_.astype(np.float32)[:, None], np.array([model.intercept_], np.float32)
    nodes = [
        make_node("Sub", [INPUT, "mean"], ["centered"]),
        make_node("Div", ["centered", "scale"], ["scaled"]),
        make_node("Gemm", ["scaled", "weights", "bias"], ["log"]),
        make_node("Exp", ["log"], ["column"]),
    ]
    constants = {"mean": scaler.mean, "scale": scaler.scale, "weights": weights, "bias": bias}
    return of_rows(nodes, len(scaler.mean), constants)


def deviances(counts, rates):
    rates = np.maximum(rates.astype(float), 1e-6)
    return 2 * (counts * np.log(np.maximum(counts, 1) / rates) - counts + rates)


def deviance(counts, rates):
    return float(deviances(counts, rates).mean())


def resampled(counts, rates):
    return bootstrap.mean(np.zeros(len(counts), int), deviances(counts, rates))
