"""The density, and its graph: a quadratic form."""

from functools import partial

import numpy as np
from onnx.helper import make_node
from sklearn.covariance import ShrunkCovariance

from nightshift.contracts.package import INPUT
from nightshift.tasks.fitting import Fitted, fit_estimator
from nightshift.tasks.onnx_export import of_rows


def fit(spec, matrix):
    matrix = matrix.astype(float)
    model = fit_estimator(ShrunkCovariance, spec, {}, matrix, None)
    constant = (np.linalg.slogdet(model.covariance_)[1] + matrix.shape[1] * np.log(2 * np.pi)) / 2
    return Fitted(partial(_graph, model, constant), lambda rows: model.mahalanobis(rows) / 2 + constant)


def _graph(model, constant):
    root = np.linalg.cholesky(model.get_precision() / 2)  # so that a sum of squares is half of the distance
    nodes = [
        make_node("Sub", [INPUT, "mean"], ["centered"]),
        make_node("MatMul", ["centered", "root"], ["scaled"]),
        make_node("ReduceSumSquare", ["scaled"], ["distance"], axes=[1]),
        make_node("Add", ["distance", "constant"], ["column"]),
    ]
    constants = {"mean": model.location_, "root": root, "constant": np.array([constant])}
    return of_rows(nodes, len(root), {name: array.astype(np.float32) for name, array in constants.items()})
