"""The loop over resident rows, in one process."""

import logging
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from nightshift.config.neural import Compile, Decay, Fit, Precision, Recompute
from nightshift.models.neural import devices, replica, trainer
from nightshift.models.neural.data import BatchShare, ResidentDataset
from nightshift.models.neural.progress import TrainingProgress
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes import mlp
from nightshift.models.recipes.mlp import MLP, MLPParameters
from nightshift.runtime.errors import UserError
from tests.components.training import samples

CPU = torch.device("cpu")
SMALL = MLPParameters(hidden=8, layers=2, epochs=2, batch_size=64, learning_rate=0.02)


def rows(parameters: MLPParameters) -> tuple[ResidentDataset, int]:
    matrix, labels = samples.matrix()
    matrix = (matrix - matrix.mean(axis=0)) / matrix.std(axis=0)
    return ResidentDataset(*mlp.resident(matrix, labels, CPU), parameters.batch_size), matrix.shape[1]


def trained(parameters: MLPParameters = SMALL, seed: int = 0) -> nn.Sequential:
    data, width = rows(parameters)
    with devices.reproducible(seed, threads=1):
        return trainer.fit(Replica(MLP(width, parameters), CPU), data).model


def gap(first: nn.Sequential, second: nn.Sequential) -> float:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def test_an_epoch_serves_every_row_once_with_its_own_label_in_batches_of_the_given_size():
    inputs = torch.arange(10.0)[:, None]

    batches = list(ResidentDataset(inputs, inputs[:, 0] * 2, 4).epoch())

    assert [len(labels) for _, labels, _ in batches] == [4, 4, 2]
    served = torch.cat([inputs[:, 0] for inputs, _, _ in batches])
    assert sorted(served.tolist()) == list(range(10))
    assert all(torch.equal(inputs[:, 0] * 2, labels) for inputs, labels, _ in batches)


def orders(data: ResidentDataset, epochs: int, skip: int = 0) -> list[float]:
    batches = (batch for epoch in range(epochs) for batch in data.epoch(0 if epoch else skip))
    return [label for batch in batches for label in batch.labels.tolist()]


def test_two_epochs_serve_the_rows_in_different_orders_that_the_seed_decides():
    data = ResidentDataset(torch.zeros(50, 1), torch.arange(50.0), 50)
    epochs_by_seed = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        data.seed()
        epochs_by_seed.append(orders(data, 2))

    assert epochs_by_seed[0] == epochs_by_seed[1] != epochs_by_seed[2]
    assert epochs_by_seed[0][:50] != epochs_by_seed[0][50:]


@pytest.mark.parametrize("served", range(1, 9))
def test_an_epoch_goes_on_after_any_batch(served):
    """Three batches an epoch: after the last one, the state is the next epoch's."""
    data = ResidentDataset(torch.zeros(10, 1), torch.arange(10.0), 4)
    data.seed()
    whole = orders(data, 3)
    data.seed()
    batches = (batch for _ in range(3) for batch in data.epoch())
    before = [label for _ in range(served) for label in next(batches)[1].tolist()]

    resumed = ResidentDataset(data.inputs, data.labels, 4)
    resumed.load(data.state())

    assert before + orders(resumed, 3 - served // 3, skip=served % 3) == whole


def test_the_same_seed_gives_the_same_weights_and_another_seed_gives_others():
    first, again, other = (trained(seed=seed) for seed in (1, 1, 2))

    assert gap(first, again) == 0
    assert gap(first, other) > 0.01


def test_training_learns_what_separates_the_classes():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(2000, 3)).astype(np.float32)
    labels = (matrix[:, 0] * matrix[:, 1] > 0).astype(np.int8)  # no line separates these
    parameters = MLPParameters(hidden=32, epochs=30, batch_size=64, learning_rate=0.02)
    with devices.reproducible(0, threads=1):
        fitted = trainer.fit(Replica(MLP(3, parameters), CPU), ResidentDataset(*mlp.resident(matrix, labels, CPU), 64))

    assert ((mlp.probabilities(fitted.model, matrix) > 0.5) == labels).mean() > 0.95
    assert [step for step, _ in fitted.losses][-1] == 30 * 32
    assert fitted.losses[0][1] > 0.6 > 0.2 > fitted.losses[-1][1]


@given(steps=st.integers(1, 300), warmup=st.floats(0, 0.999), decay=st.sampled_from(Decay))
def test_the_learning_rate_rises_in_the_warm_up_and_falls_after_it(steps, warmup, decay):
    fit = Fit(warmup=warmup, decay=decay)
    rates, rising = [trainer.learning_rate(0.5, fit, done, steps) for done in range(steps)], round(warmup * steps)
    assert min(rates) > 0
    assert max(rates[max(rising - 1, 0) : rising + 1]) == 0.5
    assert (np.diff(rates[:rising]) > 0).all()
    assert (np.diff(rates[rising:]) < 0).all()


def test_weights_decay_as_adamws_do_and_biases_do_not():
    fit = SMALL.model_copy(update={"weight_decay": 0.3, "epochs": 1})
    data, width = rows(fit)
    with devices.reproducible(0, threads=1):
        model = MLP(width, fit).model()
        vectors = {"params": [weight for weight in model.parameters() if weight.dim() == 1], "weight_decay": 0.0}
        matrices = {"params": [weight for weight in model.parameters() if weight.dim() == 2]}
        adamw = torch.optim.AdamW([vectors, matrices], lr=fit.learning_rate, weight_decay=0.3, fused=True)
        data.seed()
        steps = len(data)
        for done, (inputs, labels, _) in enumerate(data.epoch()):
            for group in adamw.param_groups:
                group["lr"] = trainer.learning_rate(fit.learning_rate, fit, done, steps)
            adamw.zero_grad()
            MLP(width, fit).loss(model(inputs), labels).backward()
            adamw.step()

    assert gap(trained(fit), model) == 0
    assert gap(trained(SMALL.model_copy(update={"epochs": 1})), model) > 0.01


class Halved(MLP):
    """Its biases learn at half the rate."""

    def optimizer_groups(self, trained):
        weights, biases = ([trained[name] for name in trained if name.endswith(end)] for end in ("weight", "bias"))
        return [{"params": weights}, {"params": biases, "lr": self.fit.learning_rate / 2}]


def test_each_group_of_parameters_follows_the_schedule_from_its_own_rate():
    data = ResidentDataset(torch.ones(8, 1), torch.ones(8), 2)
    training = NetworkTraining(Replica(Halved(1, MLPParameters(hidden=2, learning_rate=0.5, epochs=1)), CPU), data)
    rates = []
    for batch in training.batches():
        training.step(batch)
        rates.append([group["lr"] for group in training.optimizer.param_groups])

    assert rates == [[0.5, 0.25], [0.375, 0.1875], [0.25, 0.125], [0.125, 0.0625]]


def test_half_of_the_steps_with_a_cosine_are_left_at_half_the_rate():
    fit = Fit(warmup=0.2, decay="cosine")
    assert [trainer.learning_rate(0.5, fit, done, 10) for done in (0, 1, 2, 6)] == pytest.approx([0.25, 0.5, 0.5, 0.25])


def test_what_is_kept_is_the_moving_average_of_the_weights_after_each_step():
    data, width = rows(SMALL)
    fit = SMALL.model_copy(update={"ema_decay": 0.6})
    with devices.reproducible(0, threads=1):
        training = NetworkTraining(Replica(MLP(width, fit), CPU), data)
        data.seed()
        expected = [parameter.detach().clone() for parameter in training.replica.model.parameters()]
        for number, batch in enumerate(training.batches(), 1):
            training.step(batch)
            left = min(0.6, (1 + number) / (10 + number))
            expected = [
                left * mean + (1 - left) * parameter
                for mean, parameter in zip(expected, training.replica.model.parameters(), strict=True)
            ]
    training.finish()

    averaged = trained(fit)
    assert gap(averaged, training.replica.model) == 0
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(averaged.parameters(), expected, strict=True))
    assert gap(averaged, trained()) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"microbatches": 3},
        {"recompute": Recompute.SELECTIVE},
        {"recompute": Recompute.FULL},
        {"recompute": Recompute.FULL, "microbatches": 64},
    ],
)
def test_accumulated_gradients_and_recomputed_activations_train_the_same_network(change):
    assert gap(trained(), trained(SMALL.model_copy(update=change))) < 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a module that torch.compile imports
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # torch.compile looks at all inputs
@pytest.mark.parametrize("recompute", [Recompute.NONE, Recompute.SELECTIVE])
def test_a_compiled_network_is_the_same_network(recompute):
    short = SMALL.model_copy(update={"epochs": 1, "batch_size": 300, "layers": 1})

    compiled = trained(short.model_copy(update={"compile": Compile.DEFAULT, "recompute": recompute}))

    assert gap(trained(short), compiled) < 1e-5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_compiled_for_a_training_is_left_there():
    """Batches of another size would be compiled for anew."""
    compiled = Replica(MLP(3, SMALL.model_copy(update={"compile": Compile.DEFAULT})), CPU)

    for model, is_compiled in ((compiled.model, True), (compiled.whole(), False)):
        assert all(bool(block._compiled_call_impl) == is_compiled for block in model)
    assert gap(compiled.model, compiled.whole()) == 0


@pytest.mark.parametrize(
    ("microbatches", "device", "message"),
    [
        (1, "cpu", "compile is cuda-graphs, which only GPUs have; write compile: default"),
        (2, "cuda", "and microbatches is 2: .*; write microbatches: 1, or compile: default"),
    ],
)
def test_cuda_graphs_are_refused_where_they_cannot_be(microbatches, device, message):
    fit = Fit(compile=Compile.CUDA_GRAPHS, microbatches=microbatches)
    with pytest.raises(UserError, match=message):
        replica.check(fit, torch.device(device))


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP16])
@pytest.mark.parametrize("clip", [0, 1.0])
def test_lower_precision_trains_nearly_the_same_network(precision, clip):
    full = SMALL.model_copy(update={"clip": clip})
    lower = trained(full.model_copy(update={"precision": precision}))

    assert 1e-7 < gap(trained(full), lower) < 0.1
    assert {parameter.dtype for parameter in lower.parameters()} == {torch.float32}


def test_a_step_whose_gradients_overflow_is_left_out():
    data, width = rows(SMALL)
    training = NetworkTraining(Replica(MLP(width, SMALL.model_copy(update={"precision": Precision.FP16})), CPU), data)
    before = [parameter.clone() for parameter in training.replica.model.parameters()]

    training.step(BatchShare(torch.full((64, width), 1e30), torch.ones(64), 64))

    assert all(torch.equal(a, b) for a, b in zip(before, training.replica.model.parameters(), strict=True))
    assert training.scaler.get_scale() == 2**15


def test_gradients_are_clipped_to_the_norm():
    data, width = rows(SMALL)
    replica = Replica(MLP(width, SMALL), CPU)
    replica.backward(next(data.epoch()), lambda loss: loss)
    replica.clip(0.01)

    norms = [parameter.grad.norm() for parameter in replica.model.parameters()]
    assert torch.stack(norms).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_rows_are_scored_so_many_at_once_as_the_device_can_hold():
    network = MLP(1, MLPParameters(hidden=2)).model()
    sizes = []
    network.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    matrix = np.linspace(-1, 1, mlp.AT_ONCE + 3, dtype=np.float32)[:, None]

    scores = mlp.probabilities(network, matrix)

    assert sizes == [mlp.AT_ONCE, 3]
    assert np.abs(scores[[0, -1]] - mlp.probabilities(network, matrix[[0, -1]])).max() < 1e-6


def test_progress_names_step_loss_speed_and_what_is_left(caplog):
    caplog.set_level(logging.INFO, "nightshift")
    silent, loud = TrainingProgress(100, 64, 1000), TrainingProgress(100, 64, 1000, seconds=0)
    silent.advance(50, torch.tensor(0.5))
    loud.advance(50, torch.tensor(0.5))

    (record,) = caplog.messages
    line = r"step 50 of 100: loss 0\.5, [\d,]+ rows/s, [\d,.]+ GFLOP/s, 0 s left"
    assert re.fullmatch(line, record)
    assert loud.line(50, 0.5, speed=10) == "step 50 of 100: loss 0.5, 640 rows/s, 0.00 GFLOP/s, 5 s left"


def test_the_settings_of_pytorch_are_restored_even_after_a_failure():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="stop"), devices.reproducible(0, threads=before + 1):
        assert torch.get_num_threads() == before + 1
        assert torch.are_deterministic_algorithms_enabled()
        raise RuntimeError("stop")

    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_refused_and_never_replaced_by_the_cpu():
    with pytest.raises(UserError, match=r"--device cuda: .* finds no GPU; .* run with --device cpu"):
        devices.torch_device("cuda")


def test_a_training_that_is_measured_takes_no_step_of_its_own() -> None:
    seen = []
    data = ResidentDataset(torch.ones(8, 1), torch.ones(8), 2)

    with devices.reproducible(0, 1), trainer.measure_next(seen.append):
        trainer.fit(Replica(MLP(1, MLPParameters(hidden=2, batch_size=2)), CPU), data)

    (training,) = seen
    assert (training.done, training.rows) == (0, data)
    with devices.reproducible(0, 1):
        fitted = trainer.fit(Replica(MLP(1, MLPParameters(hidden=2, batch_size=2, epochs=1)), CPU), data)
    assert len(fitted.losses) == 4
