"""A training that cannot go on ends in one sentence, and its last good checkpoint stays."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.metadata import Metadata

from nightshift.config.neural import Precision
from nightshift.models.neural import checkpoints
from nightshift.models.neural.checkpoints import Checkpoints
from nightshift.models.neural.preemption import PreemptionNotice
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes.mlp import MLP
from nightshift.runtime.errors import UserError
from tests.nightshift.models.neural import diverging, resumable
from tests.nightshift.models.neural.resumable import CPU, PARAMETERS, STEPS
from tests.nightshift.models.neural.test_checkpoints import fitted, replica, saved_three


class Diverging(Checkpoints):
    """Checkpoints after every step of a training whose weights, or rows, are spoiled after a step."""

    def __init__(self, folder: Path, spoil, step: int = 6, seconds: float = 0):
        super().__init__(str(folder), seconds, PreemptionNotice())
        self.spoil, self.step = spoil, step

    def after(self, training):
        if training.done == self.step:
            self.spoil(training)
        super().after(training)


def spoil_weight(training):
    next(training.replica.model.parameters()).data[0, 0] = float("inf")


def spoil_rows(training):  # from the next epoch on
    training.rows.inputs.fill_(float("nan"))


@pytest.mark.parametrize(
    ("spoil", "what"),
    [(spoil_weight, "the weights after step 6 are not finite"), (spoil_rows, "the loss of step 12 is nan")],
)
def test_a_training_that_diverges_stops_in_one_sentence_and_its_last_good_checkpoint_stays(tmp_path, spoil, what):
    with pytest.raises(UserError) as refused:
        fitted(Diverging(tmp_path, spoil))

    newest = max(path for path in tmp_path.iterdir() if (path / checkpoints.FILE).exists())
    advice = "write a learning_rate below 0.02, or clip: 1"
    assert str(refused.value) == f"{what}; {advice}; the last checkpoint stays in {newest}"
    training = NetworkTraining(replica(), resumable.rows())
    Checkpoints(str(tmp_path), 1000, PreemptionNotice()).resume(training)
    assert 4 <= training.done < 12
    assert all(value.isfinite().all() for value in training.state().values() if value.is_floating_point())


@pytest.mark.slow
def test_processes_of_which_one_diverges_all_stop_with_the_same_sentence(tmp_path):
    command = [sys.executable, "-m", "tests.nightshift.models.neural.diverging", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr[-5000:]
    for layout in range(len(diverging.LAYOUTS)):
        first, second = ((tmp_path / f"{layout}-{rank}.txt").read_text() for rank in range(2))
        assert first == second
        assert first.startswith("the weights after step 6 are not finite; ")


def spoil_average(training):
    training._ema.values["0.0.weight"].fill_(float("nan"))


def test_weights_that_diverge_in_the_last_step_are_not_returned(tmp_path):
    with pytest.raises(UserError, match=rf"after step {STEPS} are not finite; .*; no checkpoint was saved"):
        fitted(Diverging(tmp_path, spoil_average, STEPS, 1000))


def test_in_half_precision_steps_that_overflow_are_skipped_until_no_scale_helps(tmp_path):
    with pytest.raises(UserError, match=r"gradients still overflow in step \d+, with a loss scaled by 6e-05; write a"):
        fitted(Diverging(tmp_path, spoil_rows), Precision.FP16)


def test_a_checkpoint_of_another_network_is_refused_in_one_sentence(tmp_path):
    saved_three(tmp_path)
    training = NetworkTraining(Replica(MLP(5, PARAMETERS.model_copy(update={"hidden": 9})), CPU), resumable.rows())

    with pytest.raises(
        UserError,
        match=r"step-\d+3 is of another network: its model\.0\.0\.weight is \(8, 5\), and here \(9, 5\); remove",
    ):
        Checkpoints(str(tmp_path), 1000, PreemptionNotice()).resume(training)


def test_a_checkpoint_without_one_of_the_weights_is_refused_in_one_sentence():
    with pytest.raises(UserError, match=r"here is of another network: its weight is missing, and here \(2\); remove"):
        checkpoints.select_saved({"weight": torch.ones(2)}, Metadata({}), "here")


@pytest.fixture
def small_files():
    """Files end after 2000 bytes, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("small_files")
def test_a_checkpoint_that_cannot_be_written_ends_the_training_in_one_sentence(tmp_path):
    with pytest.raises(UserError, match=rf"^{tmp_path}/step-\d+: File too large; check the path$"):
        fitted(Checkpoints(str(tmp_path), 0, PreemptionNotice()))
