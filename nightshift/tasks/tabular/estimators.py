"""The kinds of models: each is fitted by its library and handed back as an ONNX graph.

The only file that imports cuml. On the GPU, XGBoost and PyTorch take `device="cuda"`; logistic regression and
random forest come from cuML (26.02) and are converted by its `as_sklearn()`; these two follow its documentation and
have not been run.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from nightshift import candidates, storage
from nightshift.models import recipes
from nightshift.models.contributions import DenseLayers, Term
from nightshift.models.neural import devices, processes, trainer
from nightshift.models.neural.data import GatherDataset, ResidentDataset, TrainingDataset, gather_streamed
from nightshift.models.neural.trainer import Checkpointer
from nightshift.models.recipes import mlp
from nightshift.runtime.errors import UserError, suggest_install
from nightshift.tabular.scaler import Matrix, Scaler
from nightshift.tasks import onnx_export
from nightshift.tasks.fitting import FitSpec, Fitted, fit_estimator
from nightshift.tasks.onnx_export import Forest, Tree
from nightshift.tasks.tabular import boosting, graphs
from nightshift.tasks.tree_paths import split_margin

Labels = npt.NDArray[np.int8]

log = logging.getLogger("nightshift")

ROUNDS = 100  # of XGBoost, where the parameters do not say


def fit(kind: str, spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit a model of a kind.

    Args:
        kind: as in the config.
        spec: parameters and circumstances.
        matrix: inputs, float32 (n, d).
        labels: 0 or 1, int8 (n,).

    Raises:
        UserError: when the library does not know a parameter, or refuses its value.
    """
    columns, width = spec.columns, matrix.shape[1]
    if columns is None:
        return _fit(kind, spec, matrix, labels)
    validation = spec.validation and (spec.validation[0][:, columns], spec.validation[1])
    fitted = _fit(kind, replace(spec, validation=validation), matrix[:, columns], labels)
    return replace(
        fitted,
        export=lambda: graphs.select_columns(fitted.graph, columns, width),
        predict=lambda rows: fitted.predict(rows[:, columns]),
        split_margin=lambda: [replace(term, columns=columns) for term in fitted.split_margin()],
    )


def _fit(kind: str, spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    fitted: Fitted = candidates.find(kind).fit_function(spec, matrix, labels)
    return fitted


def check(kind: str, spec: FitSpec, matrix: Matrix, labels: Labels) -> None:
    """Have a library take the parameters: it fits one tree, or the like, and exports it. A network only reads them.

    Raises:
        UserError: when the library does not know a parameter, or refuses its value.
    """
    if recipes.find(kind):
        mlp.parameters(spec.field, spec.parameters)
        return
    trees = spec.parameters.get("n_estimators")
    small = {"n_estimators": 1} if isinstance(trees, int) and trees > 0 else {}
    fit(kind, replace(spec, parameters={**spec.parameters, **small}, checkpoints=""), matrix, labels).export()


def fit_xgboost(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit XGBoost's trees; see `fit`."""
    if spec.device == "cuda" and spec.parameters.get("tree_method") == "exact":
        raise UserError(
            f"{spec.field}.tree_method is 'exact', which XGBoost has on the CPU only; "
            "with --device cuda write tree_method: hist and max_bin: 1024 or more"
        )
    own = {"random_state": spec.seed, "n_jobs": spec.threads, "device": spec.device}
    model = _fit_boosting(spec, own, matrix, labels)
    width = matrix.shape[1]
    return explained_forest(
        lambda: _read_xgboost(model, width, spec.nullable), lambda rows: model.predict_proba(rows)[:, 1]
    )


def explained_forest(
    read: Callable[[], Forest], predict: Callable[[Any], Any], choices: Mapping[str, float] = MappingProxyType({})
) -> Fitted:
    """Return a fitted forest, which `read` gives; for the rest see `Fitted`."""
    return Fitted(
        lambda: onnx_export.forest(*read()), predict, choices=choices, split_margin=lambda: split_margin(read())
    )


def _fit_boosting(spec: FitSpec, own: Mapping[str, Any], matrix: Matrix, labels: Labels) -> Any:
    if not spec.checkpoints:
        return fit_estimator(xgboost.XGBClassifier, spec, own, matrix, labels)
    with boosting.keep_checkpoints(_folder(spec, matrix, labels), spec.trainer.checkpoint_seconds) as (saving, booster):
        if booster:
            log.info("resuming after round %d", done := booster.num_boosted_rounds())
            left = spec.parameters.get("n_estimators", ROUNDS) - done
            spec = replace(spec, parameters={**spec.parameters, "n_estimators": left})
        own = {**own, "callbacks": [saving]}
        return fit_estimator(xgboost.XGBClassifier, spec, own, matrix, labels, xgb_model=booster)


def _read_xgboost(model: Any, width: int, nullable: bool) -> Forest:
    learner = json.loads(model.get_booster().save_raw("json"))["learner"]
    trees, base = read_boosted_trees(learner, nullable)
    return Forest(trees, width, "BRANCH_LT", float(np.log(base / (1 - base))), "Sigmoid")


def read_boosted_trees(learner: Mapping[str, Any], nullable: bool) -> tuple[list[Tree], float]:
    """Return the trees of XGBoost's JSON, and the base score in the unit of the labels."""
    # "[5E-1]" in newer versions, "5E-1" in older ones
    return read_trees(learner, nullable), float(learner["learner_model_param"]["base_score"].strip("[]"))


def read_trees(learner: Mapping[str, Any], nullable: bool) -> list[Tree]:
    """Return the trees of XGBoost's JSON."""
    return [_xgboost_tree(tree, nullable) for tree in learner["gradient_booster"]["model"]["trees"]]


def _xgboost_tree(tree: Mapping[str, Any], nullable: bool) -> Tree:
    # a leaf keeps its value where an inner node keeps its threshold
    values = np.array(tree["split_conditions"], dtype=np.float32)
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    missing_left = np.array(tree["default_left"]) if nullable else None
    cover = np.array(tree["sum_hessian"], dtype=np.float32)
    return Tree(left, right, np.array(tree["split_indices"]), values, values, missing_left, cover)


def fit_random_forest(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit a random forest of scikit-learn's or cuML's; see `fit`."""
    if spec.device == "cuda":
        if spec.nullable:
            raise UserError(
                f"{spec.field}: cuML's random forest takes no missing numbers; leave limits.nullable empty, take "
                "kind xgboost, or run with --device cpu"
            )
        # 128 bins, its default, are too coarse for rare positives; with one stream the seed decides everything
        own = {"random_state": spec.seed, "n_bins": 1024, "n_streams": 1}
        model = fit_estimator(_cuml().ensemble.RandomForestClassifier, spec, own, matrix, labels)
    else:
        own = {"random_state": spec.seed, "n_jobs": spec.threads}
        model = fit_estimator(RandomForestClassifier, spec, own, matrix, labels)
    width = matrix.shape[1]
    return explained_forest(
        lambda: _read_forest(model, width, spec.nullable), lambda rows: model.predict_proba(rows)[:, 1]
    )


def _read_forest(model: Any, width: int, nullable: bool) -> Forest:
    forest = _on_host(model).estimators_
    trees = [_sklearn_tree(tree.tree_, len(forest), nullable) for tree in forest]
    return Forest(trees, width, "BRANCH_LEQ", 0.0, "Identity")


def _sklearn_tree(tree: Any, trees: int, nullable: bool) -> Tree:
    share, threshold = (tree.value[:, 0, 1] / trees).astype(np.float32), rounded_down(tree.threshold)
    missing_left = tree.missing_go_to_left if nullable else None
    cover = tree.weighted_n_node_samples
    return Tree(tree.children_left, tree.children_right, tree.feature, threshold, share, missing_left, cover)


def rounded_down(thresholds: npt.NDArray[np.float64]) -> Matrix:
    """Return the largest float32 not above each float64: of a float32 x, `x <= threshold` stays as true as it was."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def fit_logistic_regression(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit a logistic regression of standardized inputs; see `fit`."""
    scaler = Scaler.fit(matrix, spec.nullable)
    scaled = scaler.apply(matrix).astype(np.float64)
    if spec.device == "cuda":
        model = fit_estimator(_cuml().linear_model.LogisticRegression, spec, {}, scaled, labels)
    else:
        model = fit_estimator(LogisticRegression, spec, {"random_state": spec.seed}, scaled, labels)
    return Fitted(
        lambda: onnx_export.dense(scaler, _read_line(_on_host(model))),
        lambda rows: model.predict_proba(scaler.apply(rows).astype(np.float64))[:, 1],
        split_margin=lambda: [split_layers(scaler, _read_line(_on_host(model)), is_logit=True)],
    )


def split_layers(scaler: Scaler, layers: Sequence[tuple[Matrix, Matrix]], is_logit: bool = False) -> Term:
    """Return the margin of dense layers as a term; for the arguments see `onnx_export.dense` and `Term`."""
    return Term(DenseLayers(scaler.mean, scaler.scale, layers), is_logit=is_logit)


def _read_line(line: Any) -> list[tuple[Matrix, Matrix]]:
    return [(line.coef_.astype(np.float32), line.intercept_.astype(np.float32))]


def fit_mlp(spec: FitSpec, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit a multilayer perceptron of standardized inputs; see `fit`."""
    parameters = mlp.parameters(spec.field, spec.parameters)
    scaler = Scaler.fit(matrix, spec.nullable)
    device = devices.torch_device(spec.device)
    rows = _rows(spec, scaler, matrix, labels, parameters.batch_size)
    with _open_checkpoints(spec, matrix, labels) as kept, devices.reproducible(spec.seed, parameters.threads):
        training = trainer.fit(
            processes.replica(mlp.MLP(matrix.shape[1], parameters), spec.trainer, device), rows, kept
        )
    return Fitted(
        lambda: onnx_export.dense(scaler, mlp.layers(training.model)),
        lambda rows: mlp.probabilities(training.model, scaler.apply(rows)),
        training.losses,
        training.validation_losses,
        choices=training.choices,
        split_margin=lambda: [split_layers(scaler, mlp.layers(training.model), is_logit=True)],
    )


def _rows(spec: FitSpec, scaler: Scaler, matrix: Matrix, labels: Labels, size: int) -> TrainingDataset:
    """Return what a network is trained on, all of it on the device where it fits."""
    device = devices.torch_device(spec.device)
    if matrix.nbytes <= spec.resident:
        return ResidentDataset(*mlp.resident(scaler.apply(matrix), labels, device), size)
    # a batch is standardized when it is gathered, so that there is no second matrix
    gather = gather_streamed(lambda chosen: scaler.apply(matrix[chosen]), matrix[0].nbytes, device)
    return GatherDataset(gather, mlp.targets(labels, device), size)


def _open_checkpoints(spec: FitSpec, matrix: Matrix, labels: Labels) -> AbstractContextManager[Checkpointer | None]:
    if not spec.checkpoints:
        return nullcontext()
    from nightshift.models.neural import checkpoints

    return checkpoints.open_checkpoints(_folder(spec, matrix, labels), spec.trainer.checkpoint_seconds)


def _folder(spec: FitSpec, matrix: Matrix, labels: Labels) -> str:
    """Return where a fit's checkpoints lie, which its rows name: a candidate is fitted on two windows."""
    rows = hashlib.sha256(matrix.ravel(order="K").data)  # a view, whatever the order of the axes
    rows.update(labels.data)
    return storage.join(spec.checkpoints, spec.field, rows.hexdigest()[:16])


def _cuml() -> Any:
    try:
        import cuml.ensemble
        import cuml.linear_model
    except ImportError as error:
        raise UserError(
            f"--device cuda needs cuML for logistic_regression and random_forest, and it cannot be imported ({error}); "
            f"run {suggest_install('gpu')}, or run with --device cpu"
        ) from None
    return cuml


def _on_host(model: Any) -> Any:
    """Return a cuML model as scikit-learn's, which any other is already."""
    return model.as_sklearn() if hasattr(model, "as_sklearn") else model
