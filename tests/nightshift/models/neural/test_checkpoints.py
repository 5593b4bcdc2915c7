"""A training that is interrupted, in any way, ends with the weights and losses it would have had."""

import os
import pickle
import re
import signal
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint._fsspec_filesystem import FsspecWriter
from torch.utils._python_dispatch import TorchDispatchMode

from nightshift import storage
from nightshift.config.neural import Compression, Precision, Trainer
from nightshift.models.neural import checkpoints, devices
from nightshift.models.neural import processes as processes_of_training
from nightshift.models.neural.checkpoints import CheckpointReader, Checkpoints, Together
from nightshift.models.neural.preemption import PreemptionNotice
from nightshift.models.neural.processes import PATIENCE
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes.mlp import MLP
from nightshift.runtime.errors import PreemptedError, UserError
from nightshift_testkit import processes, s3
from tests.nightshift.models.neural import elastic, handed, resumable
from tests.nightshift.models.neural.resumable import CPU, PARAMETERS, STEPS


class StoppedError(Exception):
    pass


class Stopping:
    """Checkpoints after every step, and something that happens after one of them."""

    def __init__(self, inner, step=0, happens=lambda: None):
        self.inner, self.step, self.happens, self.resumed = inner, step, happens, 0

    def resume(self, training):
        self.inner.resume(training)
        self.resumed = training.done

    def after(self, training):
        if training.done == self.step:
            self.happens()
        self.inner.after(training)

    def finish(self):
        self.inner.finish()


def replica(precision: Precision = Precision.FLOAT32) -> Replica:
    return Replica(MLP(5, PARAMETERS.model_copy(update={"precision": precision})), CPU)


def fitted(keeper=None, precision: Precision = Precision.FLOAT32) -> dict[str, torch.Tensor]:
    with devices.reproducible(0, threads=1):
        return resumable.left(resumable.fitted(replica(precision), keeper))


@cache
def undisturbed(precision: Precision = Precision.FLOAT32) -> dict[str, torch.Tensor]:
    return fitted(None, precision)


def resumed(folder: Path | str, precision: Precision = Precision.FLOAT32) -> tuple[int, dict[str, torch.Tensor]]:
    """The step after which a training resumes from the checkpoints of a folder, and what it leaves."""
    again = Stopping(Checkpoints(str(folder), 1000, PreemptionNotice()))
    weights = fitted(again, precision)
    return again.resumed, weights


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def close(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return max((first[name] - second[name]).abs().max().item() for name in first) < 1e-5


def stop():
    raise StoppedError


def saved_three(folder: Path) -> None:
    """Leave checkpoints after the first three steps."""
    kept = Checkpoints(str(folder), 0, PreemptionNotice())
    with pytest.raises(StoppedError):
        fitted(Stopping(kept, 4, stop))
    kept.finish()


@pytest.mark.parametrize(
    ("step", "precision"),  # 11 steps an epoch
    [(1, Precision.FLOAT32), (11, Precision.FLOAT32), (12, Precision.FLOAT32), (16, Precision.FP16)],
)
def test_a_training_that_fails_resumes_from_its_newest_checkpoint_with_equal_weights(tmp_path, step, precision):
    with pytest.raises(StoppedError):
        fitted(Stopping(Checkpoints(str(tmp_path), 0, PreemptionNotice()), step, stop), precision)

    start, weights = resumed(tmp_path, precision)

    # the newest one may not have been complete yet
    assert max(step - 3, 0) <= start < step
    assert same(weights, undisturbed(precision))


def test_on_sigterm_a_checkpoint_is_saved_after_the_step_and_nothing_is_lost(tmp_path):
    with (
        pytest.raises(PreemptedError, match=rf"step 15 of {STEPS} is saved in .*step-000000000015"),
        checkpoints.open_checkpoints(str(tmp_path), 1000) as kept,
    ):
        fitted(Stopping(kept, 15, lambda: os.kill(os.getpid(), signal.SIGTERM)))

    start, weights = resumed(tmp_path)
    assert (start, same(weights, undisturbed())) == (15, True)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_newest_two_checkpoints_are_kept_and_what_was_left_incomplete_is_removed(tmp_path):
    (tmp_path / "step-000000000009").mkdir()
    (tmp_path / "step-000000000009" / "__0_0.distcp").write_bytes(b"half")

    saved_three(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000002", "step-000000000003"]


def test_a_folder_without_its_last_file_is_no_checkpoint(tmp_path):
    saved_three(tmp_path)
    (tmp_path / "step-000000000003" / checkpoints.FILE).unlink()

    assert resumed(tmp_path)[0] == 2


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for offset in range(0, len(content), 97):
        content[offset] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", [".metadata", checkpoints.FILE, "__0_0.distcp"])
@pytest.mark.parametrize("damage", [truncated, emptied, flipped, Path.unlink])
def test_of_checkpoints_the_newest_whole_one_is_resumed_from(tmp_path, name, damage, caplog):
    saved_three(tmp_path)
    damage(tmp_path / "step-000000000003" / name)

    start, weights = resumed(tmp_path)

    assert (start, same(weights, undisturbed())) == (2, True)
    is_complete = (damage, name) != (Path.unlink, checkpoints.FILE)
    assert ("the checkpoint after step 3 is damaged" in caplog.text) == is_complete


def test_every_flipped_bit_of_a_checkpoint_is_noticed_or_changes_nothing(tmp_path):
    saved_three(tmp_path)
    file = tmp_path / "step-000000000003" / "__0_0.distcp"
    whole = file.read_bytes()
    changed = []
    for offset in range(0, len(whole), len(whole) // 50):
        file.write_bytes(whole[:offset] + bytes([whole[offset] ^ 16]) + whole[offset + 1 :])
        if not checkpoints.find_damage(str(file.parent)):
            changed.append(offset)
    for offset in changed[:3]:
        file.write_bytes(whole[:offset] + bytes([whole[offset] ^ 16]) + whole[offset + 1 :])
        assert same(resumed(tmp_path)[1], undisturbed())


def test_where_no_checkpoint_is_whole_the_training_starts_anew_and_says_so(tmp_path, caplog):
    saved_three(tmp_path)
    for file in tmp_path.glob("*/*.distcp"):
        flipped(file)

    start, weights = resumed(tmp_path)

    assert (start, same(weights, undisturbed())) == (0, True)
    assert "no checkpoint is whole: the training starts anew" in caplog.text


def test_checkpoints_may_lie_in_an_object_store():
    with s3.bucket() as url, s3.reached_at(url):
        root = "s3://lake/checkpoints"
        with pytest.raises(PreemptedError), checkpoints.open_checkpoints(root, 1000) as kept:
            fitted(Stopping(kept, 15, lambda: os.kill(os.getpid(), signal.SIGTERM)))

        start, weights = resumed(root)
        assert (start, same(weights, undisturbed())) == (15, True)
        storage.remove_folder(root)
        assert Checkpoints(root, 1000, PreemptionNotice()).complete() == []


class Copies(TorchDispatchMode):
    """Counts what this thread copies on the device."""

    clones = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.clones += operation is torch.ops.aten.clone.default
        return operation(*args, **(kwargs or {}))


def test_a_checkpoint_is_what_was_there_when_it_began_without_a_copy_on_the_device(tmp_path):
    kept, training = Checkpoints(str(tmp_path), 0, PreemptionNotice()), NetworkTraining(replica(), resumable.rows())
    training.step(next(training.batches()))
    before = {name: value.clone() for name, value in training.state().items()}

    with Copies() as copies:
        kept.save(training)
    for value in training.state().values():
        value.zero_()
    kept.finish()

    kept.resume(training)
    assert copies.clones == 0
    assert same(training.state(), before)
    assert before["optimizer.0.0.weight.exp_avg"].any()


@pytest.fixture
def group():
    """A group of processes that is this one alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timeout=PATIENCE)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_processes_wait_as_long_for_a_checkpoint_as_for_one_another():
    groups = Together()

    for group in (groups.options["process_group"], groups._group):
        assert group._get_backend(CPU).options._timeout == PATIENCE


def test_without_time_having_passed_nothing_is_written(tmp_path):
    fitted(Checkpoints(str(tmp_path / "none"), 1000, PreemptionNotice()))

    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("posix", "mkdir"),
        ("torch.distributed.checkpoint.filesystem", "os.mkdir"),
        ("torch.distributed.checkpoint.filesystem", "pickle.loads"),
        ("torch.distributed.checkpoint.metadata", "os.mkdir"),
        ("torch", "os.mkdir"),
    ],
)
def test_metadata_that_would_run_code_are_refused(tmp_path, module, name):
    reached = str(tmp_path / "run")
    (tmp_path / ".metadata").write_bytes(calling(module, name, reached))

    with pytest.raises(UserError, match=rf"names {re.escape(module)}\.{re.escape(name)}, which no checkpoint needs"):
        CheckpointReader(str(tmp_path)).read_metadata()
    assert not (tmp_path / "run").exists()


def calling(module: str, name: str, word: str) -> bytes:
    """A pickle that calls what a module holds, or what that holds, with a word."""
    texts = (pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in (module, name, word))
    one, two, three = texts
    return (
        pickle.PROTO + b"\x04" + one + two + pickle.STACK_GLOBAL + three + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
    )


def test_a_checkpoint_that_holds_a_pickle_is_refused_before_it_is_read(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run"),)

    saved_three(tmp_path)
    newest = tmp_path / "step-000000000003"
    (newest / ".metadata").unlink()
    dcp.save({"rows": Evil()}, storage_writer=FsspecWriter(str(newest)), no_dist=True)
    notes = storage.read_json(str(newest / checkpoints.FILE))
    notes["sha256"]["metadata"] = storage.sha256((newest / ".metadata").read_bytes())
    storage.write_json(str(newest / checkpoints.FILE), notes)

    with pytest.raises(UserError, match=r"names .*\.BytesStorageMetadata, which no checkpoint needs"):
        fitted(Checkpoints(str(tmp_path), 1000, PreemptionNotice()))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_processes_that_are_told_to_end_save_together_and_others_resume(tmp_path):
    """Two processes with shards; then one, and four that share layers and stages."""
    with processes.started(elastic.command(tmp_path, 2, '{"shard": 2}', 1000, 0.2), stderr=subprocess.PIPE) as launcher:
        elastic.reached(tmp_path, 13, 1)
        launcher.send_signal(signal.SIGTERM)
        _, error = launcher.communicate(timeout=processes.SECONDS)
    assert launcher.returncode == 75, error.decode()
    saved = int(elastic.lines(tmp_path)[-1].split()[1])
    four = tmp_path / "four"
    four.mkdir()
    (four / "kept").symlink_to(tmp_path / "kept")

    # one step more than noted may have been taken: the processes agree on it during the next
    start, weights = resumed(tmp_path / "kept")
    assert (start, close(weights, undisturbed())) == (saved, True)
    layout = '{"pipeline": 2, "tensor": 2}'
    elastic.undisturbed(four, 4, layout)
    assert close(torch.load(four / "weights.pt"), undisturbed())
    assert elastic.lines(four)[0] == f"resumed {saved}"


@pytest.mark.slow
def test_a_training_is_handed_from_whole_networks_to_zero_to_fsdp_and_back(tmp_path):
    command = [sys.executable, "-m", "tests.nightshift.models.neural.handed", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)

    assert done.returncode == 0, done.stderr[-5000:]
    assert close(torch.load(tmp_path / "weights.pt"), undisturbed())
    starts = [int(line) for line in done.stdout.splitlines()]
    assert starts[0] == 0
    assert all(before < after < STEPS for before, after in pairwise(starts))
    assert len(starts) == len(handed.LAYOUTS) - 1


@pytest.mark.slow
def test_after_a_kill_the_first_new_attempt_ends_with_the_same_weights(tmp_path):
    (tmp_path / "whole").mkdir()
    elastic.undisturbed(tmp_path / "whole", 2, elastic.LAYOUT)
    elastic.survived(tmp_path / "killed", [25])

    starts = [line for line in elastic.lines(tmp_path / "killed") if line.startswith("resumed")]
    assert starts[0] == "resumed 0" != starts[1]
    assert same(*(torch.load(tmp_path / name / "weights.pt") for name in ("whole", "killed")))


@pytest.mark.slow
def test_what_powersgd_remembers_is_in_the_checkpoint_to_the_bit(tmp_path):
    command = [sys.executable, "-m", "tests.nightshift.models.neural.compressed", str(tmp_path), "1", "15"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr[-5000:]


@pytest.mark.usefixtures("group")
@pytest.mark.filterwarnings("ignore:Slicing a flattened dim")
def test_powersgd_starts_with_an_empty_error_where_another_number_of_processes_saved_the_checkpoint(tmp_path, caplog):
    caplog.set_level("INFO", "nightshift")
    saved_three(tmp_path)  # by a process that compresses nothing
    kept = Checkpoints(str(tmp_path), 1000, PreemptionNotice())
    compressing = processes_of_training.replica(MLP(5, PARAMETERS), Trainer(compression=Compression.POWER_SGD), CPU)
    training = NetworkTraining(compressing, resumable.rows())

    kept.resume(training)

    assert training.done > 0
    assert "another number of processes saved the checkpoint: PowerSGD starts with an empty error" in caplog.text


def test_a_name_in_a_checkpoint_is_the_same_in_a_part_of_the_network_as_in_the_whole():
    model: nn.Sequential = replica().model
    assert set(model.state_dict()) >= {"0.0.weight", "3.0.bias"}
