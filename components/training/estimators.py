"""The kinds of models: each is fitted by its library and handed back as an ONNX graph.

The only file that imports cuml. On the GPU, XGBoost and PyTorch take `device="cuda"`; logistic regression and
random forest come from cuML (26.02) and are converted by its `as_sklearn()`. The GPU paths follow the
libraries' documentation and have not been run.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from components.common import storage
from components.common.config.neural import Trainer
from components.common.config.tabular import CandidateKind
from components.common.errors import UserError, check_names
from components.neural import devices, processes, trainer
from components.neural.data import RESIDENT, Gathered, Resident, Rows, streamed
from components.neural.losses import Points
from components.neural.recipes import mlp
from components.neural.trainer import Keeper
from components.tabular.scaler import Matrix, Scaler
from components.training import boosting, onnx_export
from components.training.onnx_export import Tree

Labels = npt.NDArray[np.int8]

log = logging.getLogger("nightshift")

ROUNDS = 100  # of XGBoost, where the parameters do not say
# set by the step itself, or fixed because the exported graph is written for one value only
RESERVED = {"booster", "device", "n_jobs", "objective", "random_state"}

REPLICATED = Trainer()


@dataclass(frozen=True)
class Job:
    """What to fit, besides the rows.

    Attributes:
        field: where the parameters stand in the config, for messages.
        parameters: under the library's own names.
        seed: of everything random.
        threads: CPU threads.
        device: `cpu` or `cuda`.
        trainer: how processes share the training of a network.
        checkpoints: URI of the folder of this training's checkpoints; empty for none.
        resident: bytes of inputs up to which a network has all on the device; of more, a batch at a time.
    """

    field: str
    parameters: Mapping[str, Any]
    seed: int
    threads: int
    device: str
    trainer: Trainer = REPLICATED
    checkpoints: str = ""
    resident: int = RESIDENT


@dataclass(frozen=True)
class Fitted:
    """A fitted model.

    Attributes:
        export: gives the model as ONNX.
        predict: the library's own probabilities of what the graph takes, to compare that with.
        losses: (step, mean training loss since the point before) of what is trained in steps.
    """

    export: Callable[[], bytes]
    predict: Callable[[Any], Any]
    losses: Points = field(default_factory=list)

    @cached_property
    def graph(self) -> bytes:
        """The model as ONNX, exported once."""
        return self.export()


def fit(kind: CandidateKind, job: Job, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit a model of a kind.

    Args:
        kind: as in the config.
        job: parameters and circumstances.
        matrix: inputs, float32 (n, d).
        labels: 0 or 1, int8 (n,).

    Raises:
        UserError: when the library does not know a parameter, or refuses its value.
    """
    return FITTERS[kind](job, matrix, labels)


def check(kind: CandidateKind, job: Job, matrix: Matrix, labels: Labels) -> None:
    """Have a library take the parameters: it fits one tree, or the like, and exports it. A network only reads them.

    Raises:
        UserError: when the library does not know a parameter, or refuses its value.
    """
    if kind is CandidateKind.MLP:
        mlp.parameters(job.field, job.parameters)
        return
    trees = job.parameters.get("n_estimators")
    small = {"n_estimators": 1} if isinstance(trees, int) and trees > 0 else {}
    fit(kind, replace(job, parameters={**job.parameters, **small}, checkpoints=""), matrix, labels).export()


def _xgboost(job: Job, matrix: Matrix, labels: Labels) -> Fitted:
    if job.device == "cuda" and job.parameters.get("tree_method") == "exact":
        raise UserError(
            f"{job.field}.tree_method is 'exact', which XGBoost has on the CPU only; "
            "with --device cuda write tree_method: hist and max_bin: 1024 or more"
        )
    own = {"random_state": job.seed, "n_jobs": job.threads, "device": job.device}
    model = _boosted(job, own, matrix, labels)
    return Fitted(lambda: _xgboost_graph(model, matrix.shape[1]), lambda rows: model.predict_proba(rows)[:, 1])


def _boosted(job: Job, own: Mapping[str, Any], matrix: Matrix, labels: Labels) -> Any:
    if not job.checkpoints:
        return fitted(xgboost.XGBClassifier, job, own, matrix, labels)
    with boosting.kept(_folder(job, matrix, labels), job.trainer.checkpoint_seconds) as (saving, booster):
        if booster:
            log.info("resuming after round %d", done := booster.num_boosted_rounds())
            left = job.parameters.get("n_estimators", ROUNDS) - done
            job = replace(job, parameters={**job.parameters, "n_estimators": left})
        own = {**own, "callbacks": [saving]}
        return fitted(xgboost.XGBClassifier, job, own, matrix, labels, xgb_model=booster)


def _xgboost_graph(model: Any, width: int) -> bytes:
    learner = json.loads(model.get_booster().save_raw("json"))["learner"]
    trees = [_xgboost_tree(tree) for tree in learner["gradient_booster"]["model"]["trees"]]
    # "[5E-1]" in newer versions, "5E-1" in older ones
    base = float(learner["learner_model_param"]["base_score"].strip("[]"))
    return onnx_export.forest(trees, width, "BRANCH_LT", float(np.log(base / (1 - base))), logits=True)


def _xgboost_tree(tree: Mapping[str, Any]) -> Tree:
    # a leaf keeps its value where an inner node keeps its threshold
    values = np.array(tree["split_conditions"], dtype=np.float32)
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    return Tree(left, right, np.array(tree["split_indices"]), values, values)


def _random_forest(job: Job, matrix: Matrix, labels: Labels) -> Fitted:
    if job.device == "cuda":
        # 128 bins, its default, are too coarse for rare positives; with one stream the seed decides everything
        own = {"random_state": job.seed, "n_bins": 1024, "n_streams": 1}
        model = fitted(_cuml().ensemble.RandomForestClassifier, job, own, matrix, labels)
    else:
        own = {"random_state": job.seed, "n_jobs": job.threads}
        model = fitted(RandomForestClassifier, job, own, matrix, labels)
    return Fitted(lambda: _forest_graph(model, matrix.shape[1]), lambda rows: model.predict_proba(rows)[:, 1])


def _forest_graph(model: Any, width: int) -> bytes:
    forest = _on_host(model).estimators_
    trees = [_sklearn_tree(tree.tree_, len(forest)) for tree in forest]
    return onnx_export.forest(trees, width, "BRANCH_LEQ", 0.0, logits=False)


def _sklearn_tree(tree: Any, trees: int) -> Tree:
    share = (tree.value[:, 0, 1] / trees).astype(np.float32)
    return Tree(tree.children_left, tree.children_right, tree.feature, rounded_down(tree.threshold), share)


def rounded_down(thresholds: npt.NDArray[np.float64]) -> Matrix:
    """Return the largest float32 not above each float64: of a float32 x, `x <= threshold` stays as true as it was."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _logistic_regression(job: Job, matrix: Matrix, labels: Labels) -> Fitted:
    scaler = Scaler.fitted(matrix)
    scaled = scaler.apply(matrix).astype(np.float64)
    if job.device == "cuda":
        model = fitted(_cuml().linear_model.LogisticRegression, job, {}, scaled, labels)
    else:
        model = fitted(LogisticRegression, job, {"random_state": job.seed}, scaled, labels)
    return Fitted(
        lambda: _line_graph(scaler, _on_host(model)),
        lambda rows: model.predict_proba(scaler.apply(rows).astype(np.float64))[:, 1],
    )


def _line_graph(scaler: Scaler, line: Any) -> bytes:
    return onnx_export.dense(scaler, [(line.coef_.astype(np.float32), line.intercept_.astype(np.float32))])


def _mlp(job: Job, matrix: Matrix, labels: Labels) -> Fitted:
    parameters = mlp.parameters(job.field, job.parameters)
    scaler = Scaler.fitted(matrix)
    device = devices.torch_device(job.device)
    rows = _rows(job, scaler, matrix, labels, parameters.batch_size)
    with _kept(job, matrix, labels) as kept, devices.reproducible(job.seed, parameters.threads):
        found = trainer.fit(processes.replica(mlp.MLP(matrix.shape[1], parameters), job.trainer, device), rows, kept)
    return Fitted(
        lambda: onnx_export.dense(scaler, mlp.layers(found.model)),
        lambda rows: mlp.probabilities(found.model, scaler.apply(rows)),
        found.losses,
    )


def _rows(job: Job, scaler: Scaler, matrix: Matrix, labels: Labels, size: int) -> Rows:
    """Return what a network is trained on, all of it on the device where it fits."""
    device = devices.torch_device(job.device)
    if matrix.nbytes <= job.resident:
        return Resident(*mlp.resident(scaler.apply(matrix), labels, device), size)
    # a batch is standardized when it is gathered, so that there is no second matrix
    gather = streamed(lambda chosen: scaler.apply(matrix[chosen]), matrix[0].nbytes, device)
    return Gathered(gather, mlp.targets(labels, device), size)


def _kept(job: Job, matrix: Matrix, labels: Labels) -> AbstractContextManager[Keeper | None]:
    if not job.checkpoints:
        return nullcontext()
    from components.neural import checkpoints

    return checkpoints.kept(_folder(job, matrix, labels), job.trainer.checkpoint_seconds)


def _folder(job: Job, matrix: Matrix, labels: Labels) -> str:
    """Return where a fit's checkpoints lie, which its rows name: a candidate is fitted on two windows."""
    rows = hashlib.sha256(matrix.ravel(order="K").data)  # a view, whatever the order of the axes
    rows.update(labels.data)
    return storage.join(job.checkpoints, job.field, rows.hexdigest()[:16])


FITTERS: dict[CandidateKind, Callable[[Job, Matrix, Labels], Fitted]] = {
    CandidateKind.XGBOOST: _xgboost,
    CandidateKind.MLP: _mlp,
    CandidateKind.LOGISTIC_REGRESSION: _logistic_regression,
    CandidateKind.RANDOM_FOREST: _random_forest,
}


def fitted(
    estimator: Any, job: Job, own: Mapping[str, Any], matrix: Any, labels: npt.NDArray[Any], **words: Any
) -> Any:
    """Fit an estimator of the scikit-learn interface with the job's parameters, and our own where they are silent."""
    check_names(job.field, job.parameters, set(estimator().get_params()) - RESERVED)
    model = estimator(**{**own, **job.parameters})
    try:
        # sums differ with the number of BLAS threads, so it is not left to the machine
        with threadpool_limits(job.threads):
            return model.fit(matrix, labels, **words)
    except (TypeError, ValueError) as error:
        said = " ".join(str(error).split("Stack trace")[0].split())
        raise UserError(f"{job.field}: {estimator.__name__} refuses them: {said}") from None


def _cuml() -> Any:
    try:
        import cuml.ensemble
        import cuml.linear_model
    except ImportError:
        raise UserError(
            "--device cuda needs cuML for logistic_regression and random_forest, and it is missing; "
            "in the checkout run pip install -e '.[gpu]', or run with --device cpu"
        ) from None
    return cuml


def _on_host(model: Any) -> Any:
    """Return a cuML model as scikit-learn's, which any other is already."""
    return model.as_sklearn() if hasattr(model, "as_sklearn") else model
