"""The network and its loop over resident rows."""

import numpy as np
import pytest
import torch

from components.common.errors import UserError
from components.tabular import mlp
from components.tabular.mlp import Parameters
from tests.components.training import samples


def test_an_epoch_serves_every_row_once_with_its_own_label_in_batches_of_the_given_size():
    rows = torch.arange(10.0)[:, None]

    batches = list(mlp.batches(rows, rows[:, 0] * 2, 4))

    assert [len(labels) for _, labels in batches] == [4, 4, 2]
    served = torch.cat([inputs[:, 0] for inputs, _ in batches])
    assert sorted(served.tolist()) == list(range(10))
    assert all(torch.equal(inputs[:, 0] * 2, labels) for inputs, labels in batches)


def test_two_epochs_serve_the_rows_in_different_orders():
    rows = torch.arange(50.0)[:, None]
    with mlp.reproducible(0, threads=1):
        orders = [next(iter(mlp.batches(rows, rows[:, 0], 50)))[1].tolist() for _ in range(2)]

    assert orders[0] != orders[1]


def trained(seed: int) -> torch.nn.Sequential:
    matrix, labels = samples.matrix()
    with mlp.reproducible(seed, threads=1):
        return mlp.fit(*mlp.resident(matrix, labels, torch.device("cpu")), Parameters(hidden=4, epochs=1))


def test_the_same_seed_gives_the_same_weights_and_another_seed_gives_others():
    first, again, other = ([weights for weights, _ in mlp.layers(trained(seed))] for seed in (1, 1, 2))

    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_training_learns_what_separates_the_classes():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(2000, 3)).astype(np.float32)
    labels = (matrix[:, 0] * matrix[:, 1] > 0).astype(np.int8)  # no line separates these
    with mlp.reproducible(0, threads=1):
        rows = mlp.resident(matrix, labels, torch.device("cpu"))
        model = mlp.fit(*rows, Parameters(hidden=32, epochs=30, batch_size=64, learning_rate=0.02))

    assert ((mlp.probabilities(model, matrix) > 0.5) == labels).mean() > 0.95


def test_the_learning_rate_falls_to_zero_over_the_training():
    loop = mlp.Loop(mlp.network(1, Parameters(hidden=2)), Parameters(learning_rate=0.5), steps=4)
    rates = []
    for _ in range(4):
        rates.append(loop.optimizer.param_groups[0]["lr"])
        loop.step(torch.ones(2, 1), torch.ones(2))

    assert rates == pytest.approx([0.5, 0.375, 0.25, 0.125])
    assert loop.optimizer.param_groups[0]["lr"] == pytest.approx(0)


def test_a_network_has_the_layers_the_parameters_ask_for():
    layers = mlp.layers(mlp.network(5, Parameters(hidden=7, layers=2)))

    assert [(weights.shape, bias.shape) for weights, bias in layers] == [
        ((7, 5), (7,)),
        ((7, 7), (7,)),
        ((1, 7), (1,)),
    ]


def test_the_settings_of_pytorch_are_restored_even_after_a_failure():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="stop"), mlp.reproducible(0, threads=before + 1):
        assert torch.get_num_threads() == before + 1
        assert torch.are_deterministic_algorithms_enabled()
        raise RuntimeError("stop")

    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epoch": 3}, r"field\.epoch: unknown; allowed here: batch_size, .*; did you mean 'epochs'\?"),
        ({"hidden": 0}, r"field\.hidden: .* greater than or equal to 1, got 0"),
        ({"hidden": "many"}, r"field\.hidden: .*, got 'many'"),
        ({"learning_rate": 0.0}, r"field\.learning_rate: .* greater than 0, got 0"),
    ],
)
def test_a_parameter_that_is_unknown_or_wrong_is_named(given, message):
    with pytest.raises(UserError, match=message):
        mlp.parameters("field", given)


def test_parameters_not_given_have_defaults():
    assert mlp.parameters("field", {"epochs": 2}) == Parameters(epochs=2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_refused_and_never_replaced_by_the_cpu():
    with pytest.raises(UserError, match=r"--device cuda: .* finds no GPU; .* run with --device cpu"):
        mlp.torch_device("cuda")
