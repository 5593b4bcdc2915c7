"""Rows that a training holds out say which weights are kept, and when it stops."""

from contextlib import suppress

import pytest
import torch

from nightshift.models.neural import devices, trainer
from nightshift.models.neural.checkpoints import Checkpoints
from nightshift.models.neural.preemption import PreemptionNotice
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes import mlp
from nightshift.models.recipes.mlp import MLP
from nightshift.runtime.errors import PreemptedError, UserError
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import estimators
from tests.components.training import samples
from tests.nightshift.models.neural import resumable
from tests.nightshift.models.neural.resumable import CPU

HELD_OUT = 21  # a fifth of 103 rows
FIT = {
    "hidden": 8, "layers": 2, "epochs": 8, "batch_size": 16, "learning_rate": 0.2, "ema_decay": 0.5,
    "validation": 0.2, "validations": 12, "keep": "best",
}  # fmt: skip
STEPS, EVERY = 48, 4


def recipe(**fields):
    return MLP(5, mlp.parameters("parameters", FIT | fields))


def fit(network, checkpoints=None):
    with devices.reproducible(0, threads=1):
        return trainer.fit(Replica(network, CPU), resumable.rows(network.fit.batch_size), checkpoints)


def measured(network):
    """The mean loss of the newest rows after each step, and the weights, by a loop that knows no validation."""
    rows, losses, weights = resumable.rows(network.fit.batch_size), {}, {}
    inputs, labels = rows.inputs[-HELD_OUT:], rows.labels[-HELD_OUT:]
    with devices.reproducible(0, threads=1):
        replica = Replica(network, CPU)
        rows.seed()
        rows.hold_out(0.2)
        training = NetworkTraining(replica, rows)
        for batch in training.batches():
            training.step(batch)
            average = training._ema.values
            with torch.no_grad():
                outputs = torch.func.functional_call(replica.model, average, (inputs,))
            losses[training.done] = network.loss(outputs, labels).item()
            weights[training.done] = {name: value.clone() for name, value in average.items()}
    return losses, weights


def test_the_weights_after_the_step_with_the_lowest_validation_loss_are_kept():
    network = recipe()
    losses, weights = measured(network)

    trained = fit(network)

    assert [step for step, _ in trained.validation_losses] == [*range(EVERY, STEPS + 1, EVERY)]
    best = min(range(EVERY, STEPS + 1, EVERY), key=losses.get)
    assert EVERY < best < STEPS
    assert trained.choices == {"kept_step": best, "validation_loss": pytest.approx(losses[best], rel=1e-5)}
    assert all(torch.equal(value, weights[best][name]) for name, value in trained.model.state_dict().items())
    last = fit(recipe(keep="last"))
    assert last.choices == {"kept_step": STEPS, "validation_loss": pytest.approx(losses[STEPS], rel=1e-5)}
    assert all(torch.equal(value, weights[STEPS][name]) for name, value in last.model.state_dict().items())


def test_a_training_ends_after_so_many_measurements_without_a_lower_loss():
    patient, impatient = fit(recipe()), fit(recipe(patience=2))

    assert impatient.choices == patient.choices
    end = patient.choices["kept_step"] + 2 * EVERY
    assert impatient.losses == patient.losses[:end]
    assert end < len(patient.losses) == STEPS


class Ending(Checkpoints):
    """Checkpoints of a training that is told to end after a step."""

    def __init__(self, folder, end):
        super().__init__(str(folder), 1000, PreemptionNotice())
        self.end = end

    def after(self, training):
        self.notice.received = training.done == self.end
        super().after(training)


@pytest.mark.parametrize("end", [2, 20, 30])
def test_a_training_that_resumes_keeps_the_same_step_and_stops_after_the_same_one(tmp_path, end):
    network = recipe(patience=3)
    undisturbed = fit(network)

    with suppress(PreemptedError):
        fit(network, Ending(tmp_path, end))
    resumed = fit(network, Ending(tmp_path, 0))

    assert resumed.choices == undisturbed.choices
    assert resumed.losses == undisturbed.losses
    assert resumable.left(resumed).keys() == resumable.left(undisturbed).keys()
    assert all(torch.equal(value, resumable.left(undisturbed)[name]) for name, value in resumable.left(resumed).items())


def test_rows_that_are_held_out_are_in_no_epoch():
    rows = resumable.rows(16)
    rows.hold_out(0.2)

    learned = torch.cat([batch.inputs for batch in rows.epoch()])
    held_out = torch.cat([batch.inputs for batch in rows.held_out_batches()])

    assert torch.equal(held_out, rows.inputs[-HELD_OUT:])
    assert len(learned) == 103 - HELD_OUT
    assert torch.equal(learned.sort(dim=0).values, rows.inputs[:-HELD_OUT].sort(dim=0).values)
    rows.hold_out(1e-9)
    assert rows.held_out == 1


@pytest.mark.parametrize("fields", [{"keep": "best"}, {"patience": 3}])
def test_nothing_is_decided_by_a_loss_that_is_not_measured(fields):
    with pytest.raises(UserError, match=r"there is no validation loss to decide by; set validation, such as 0\.1"):
        mlp.parameters("parameters", fields)


def test_a_fitted_candidate_says_which_step_was_kept():
    matrix, labels = samples.matrix()
    fitted = estimators.fit("mlp", FitSpec("parameters", FIT, seed=0, threads=1, device="cpu"), matrix, labels)

    assert set(fitted.choices) == {"kept_step", "validation_loss"}
    assert float(fitted.choices["kept_step"]).is_integer()
