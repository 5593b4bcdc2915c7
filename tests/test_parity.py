"""What is fitted on a GPU beside its CPU twin. On the CPU each case meets itself, so that the cases run everywhere."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from nightshift.models import recipes
from nightshift.models.graph import Graph
from nightshift.models.neural import devices, simulated
from nightshift.models.neural.data import BatchShare, ResidentDataset
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import estimators
from tests.components.training import samples

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
CPU = torch.device("cpu")
ROWS = 32
NETWORKS: dict[str, tuple[Mapping[str, int], Mapping[str, Any]]] = {
    "mlp": ({"inputs": 15}, {"hidden": 64, "layers": 2}),
    "resnet": ({"side": 16, "channels": 3, "classes": 4}, {"stages": "1,1", "width": 16}),
    "bert": ({"vocabulary": 50, "pad": 0, "length": 12, "classes": 4}, {"width": 32, "heads": 2, "layers": 2}),
}
KINDS = {model["kind"]: model["parameters"] for model in samples.MODELS.values()}


def stepped(kind: str, device: torch.device, steps: int = 1, **fit: Any) -> tuple[float, np.ndarray]:
    """The loss and the weights of a network after steps with the same rows."""
    shape, parameters = NETWORKS[kind]
    recipe = recipes.build(kind, "parameters", shape, {**parameters, "batch_size": ROWS, "threads": 1, **fit})
    with devices.reproducible(0, 1), devices.exact():
        inputs, labels, size = next(simulated.simulate_rows(recipe, ROWS, CPU).epoch())
        rows = ResidentDataset(inputs.to(device), labels.to(device), ROWS)
        training = NetworkTraining(Replica(recipe, device), rows)
        loss = torch.stack([training.step(BatchShare(rows.inputs, rows.labels, size)) for _ in range(steps)])[-1]
        weights = [tensor.detach().cpu().flatten() for tensor in training.replica.model.parameters()]
    return float(loss), torch.cat(weights).numpy()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("fit", [{}, {"microbatches": 4, "clip": 1.0}, {"recompute": "selective"}], ids=str)
def test_a_network_takes_the_same_step_on_a_gpu(kind: str, device: str, fit: dict[str, Any]) -> None:
    loss, weights = stepped(kind, torch.device(device), **fit)
    expected, others = stepped(kind, CPU, **fit)
    assert loss == pytest.approx(expected, rel=1e-4)
    # Adam's first step is the learning rate in the direction of the gradient's sign, which is chance where it is near 0
    assert np.mean(np.abs(weights - others) < 1e-5) > 0.99


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_same_training_gives_the_same_bits_again(kind: str, device: str, precision: str) -> None:
    first, again = (stepped(kind, torch.device(device), 5, precision=precision) for _ in range(2))
    assert first[0] == again[0]
    np.testing.assert_array_equal(first[1], again[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", NETWORKS)
def test_bf16_is_near_to_float32(kind: str, device: str) -> None:
    loss, _ = stepped(kind, torch.device(device), precision="bf16")
    assert loss == pytest.approx(stepped(kind, CPU)[0], rel=0.03)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", NETWORKS)
def test_cuda_graphs_take_the_same_steps(kind: str, device: str) -> None:
    """The first step warms up, the second is recorded, the others repeat it."""
    compiled = {"compile": "cuda-graphs"} if device == "cuda" else {}
    loss, weights = stepped(kind, torch.device(device), 5, **compiled)
    expected, others = stepped(kind, torch.device(device), 5)
    assert loss == pytest.approx(expected, rel=1e-3)
    assert np.mean(np.abs(weights - others) < 1e-3) > 0.99


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_fitted_on_a_gpu_is_as_good(kind: Any, device: str) -> None:
    matrix, labels = samples.matrix()
    unseen, truth = samples.matrix(seed=1)

    def precision(where: str) -> float:
        job = FitSpec("task.candidates.mine.parameters", KINDS[kind], 0, 1, where)
        graph = estimators.fit(kind, job, matrix, labels).graph
        return float(average_precision_score(truth, Graph(graph).score(unseen)))

    assert precision(device) == pytest.approx(precision("cpu"), abs=0.03)
