"""A program that waits for its loader: that is found, the advice is tried by `--set`, and wins what was stated."""

import textwrap
import time
from threading import Lock

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from nightshift.contracts.profile import TraceProfile
from nightshift.models.neural import devices, trainer
from nightshift.models.neural.data import GatherDataset, gather_streamed
from nightshift.models.neural.replica import Replica
from nightshift.models.recipes.mlp import MLP, MLPParameters
from nightshift.runtime.errors import UserError
from nightshift_perf.contracts import TraceChanges
from tests.pipelines.samples import called, command

CPU = torch.device("cpu")

# its storage answers after 0.2 s, which is more than a step takes, whatever else the machine does
PROGRAM = """
    import time
    import torch
    from torch.profiler import record_function
    from torch.utils.data import DataLoader, Dataset

    class SlowStorage(Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, number):
            time.sleep(0.2)
            return torch.full((64, 64), float(number))

    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    for number, batch in enumerate(DataLoader(SlowStorage(), None)):
        with record_function(f"step {number}"):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
"""


@pytest.mark.slow
def test_the_gain_of_advice_lies_in_its_stated_interval(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(PROGRAM))

    def record(name, *flags):
        done = command("perf", "profile", "--command", str(program), *flags, "--output", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        return TraceProfile.read(str(tmp_path / name / "profile.json"))

    first = record("before").diagnosis[0]
    assert (first.title, first.settings) == ("The data loader", ["num_workers=2"])
    traces = [str(tmp_path / name / "trace.json.gz") for name in ("before", "after")]
    for _ in range(5):  # where the machine is busy meanwhile, it is undecided, and right so
        record("after", "--set", first.settings[0])
        called("perf", "profile", "--before", traces[0], "--after", traces[1], "--output", str(tmp_path / "change"))
        changes = TraceChanges.read(str(tmp_path / "change/changes.json"))
        if changes.verdict != "undecided":
            break
    stated, measured = changes.findings[0].stated_ms, changes.step.saved_ms
    assert changes.verdict == "faster"
    assert stated == first.gain_ms
    assert stated[0] <= measured <= stated[1], (stated, measured)
    assert changes.parts[0].name == "Waiting for the data loader"


def test_the_wait_of_a_training_of_ours_for_its_rows_is_found_with_the_key_of_the_config(tmp_path):
    storage, rows, width = Lock(), 512, 4096

    def take(chosen):
        with storage:
            time.sleep(0.05)
            return np.zeros((len(chosen), width), np.float32)

    dataset = GatherDataset(gather_streamed(take, 4 * width, CPU), torch.zeros(rows), 64)
    with devices.reproducible(0, 1), profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        trainer.fit(Replica(MLP(width, MLPParameters(hidden=4, layers=1, epochs=1, batch_size=64)), CPU), dataset)
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))

    called("perf", "profile", "--trace", str(tmp_path / "trace.json"), "--output", str(tmp_path))

    first = TraceProfile.read(str(tmp_path / "profile.json")).diagnosis[0]
    assert (first.title, first.settings) == ("The data loader", ["trainer.processes"])
    assert first.won_pct > 50


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--command", "train.py", "--set", "num_worker=2"], "did you mean 'num_workers'"),
        (["--command", "train.py", "--set", "num_workers=many"], "give num_workers=2"),
        (["--command", "train.py", "--set", "pin_memory=1"], "true or false"),
        (["--trace", "trace.json", "--set", "num_workers=2"], "give --command"),
    ],
)
def test_a_setting_that_no_loader_has_is_refused(flags, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        called("perf", "profile", *flags, "--output", str(tmp_path / "out"))
