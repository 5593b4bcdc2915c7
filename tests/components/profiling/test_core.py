"""The measurements of a training that is repeated."""

import gzip
import json
import time
from pathlib import Path

import pytest

from components.profiling import core, instruments, traces
from components.profiling.core import PhaseTimer
from nightshift.contracts import tables
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.profile import Operation, PhaseName
from nightshift.storage import sha256
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import estimators
from nightshift.tasks.tabular.profiling import BATCH, PROFILED_STEPS, ProfilingTask, RowFit
from nightshift_testkit import packages
from packages.perf.tests.traces.samples import Events, save
from tests.components.training import samples

OPERATIONS = [Operation(name="aten::mm", calls=1, self_cpu_ms=1.0, self_device_ms=None, share=0.4)]
# what each kind's fit has to spend time on
MEANT = {"boosted": "xgboost/", "net": "aten::addmm", "line": "linear_model/", "forest": "tree/"}


def subject(name: str, rows: int = 600) -> RowFit:
    kind, parameters = samples.MODELS[name]["kind"], samples.MODELS[name]["parameters"]
    job = FitSpec(f"task.candidates.{name}.parameters", parameters, 0, 2, "cpu")
    return RowFit(name, kind, job, *samples.matrix(rows))


def watch() -> PhaseTimer:
    return PhaseTimer(is_cuda=False, seconds={PhaseName.READ: 0.01, PhaseName.MATRIX: 0.01})


@pytest.mark.parametrize("name", samples.MODELS)
def test_a_model_of_any_kind_is_measured_by_fitting_it_again(name):
    one = subject(name)
    trained = estimators.fit(one.kind, one.spec, one.matrix, one.labels)

    profile, trace = core.measure(one, watch(), sha256(trained.graph))

    assert (profile.model, profile.kind, profile.rows, profile.reproduced) == (name, one.kind, 600, True)
    assert [phase.name for phase in profile.phases] == list(PhaseName)
    seconds = {phase.name: phase.seconds for phase in profile.phases}
    assert profile.rows_per_second == pytest.approx(600 / seconds["fit"], rel=0.1)
    assert [timing.batch for timing in profile.scoring] == [1, BATCH]
    assert profile.peak_memory_bytes > 50 * 2**20
    shares = [operation.share for operation in profile.top_operations]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1.001
    assert json.loads(gzip.decompress(trace))["traceEvents"]
    everything = gzip.decompress(trace).decode() + str(profile.top_operations)
    assert MEANT[name] in everything


def test_the_selected_candidate_is_fitted_as_the_training_did(tmp_path):
    config = samples.config()
    named = {"line": packages.candidate("line", kind="logistic_regression", parameters={"C": 2.0})}
    inputs = Inputs(numeric=samples.NUMERIC, categorical={})
    model = packages.manifest({"line": b"graph"}, candidates=named, selected="line", inputs=inputs)
    table = tables.read_table(samples.write_features(tmp_path, samples.features()))
    setup, clock, started = TrainingSetup(config, samples.plan(), table, "cuda"), watch(), time.perf_counter()

    fit = ProfilingTask().selected_fit(setup, model, clock.phase)

    task, rows = config.task, table.read(samples.plan().test.train)
    assert fit.spec == FitSpec("task.candidates.line.parameters", {"C": 2.0}, task.seed, task.threads, "cuda")
    assert (fit.name, fit.kind, fit.device) == ("line", "logistic_regression", "cuda")
    assert (fit.matrix.shape, fit.labels.sum()) == ((300, 3), rows["label"].sum())
    assert 0 < clock.seconds[PhaseName.READ] < time.perf_counter() - started


def test_another_graph_than_the_trained_one_is_noticed():
    profile, _ = core.measure(subject("line"), watch(), "0" * 64)
    assert not profile.reproduced


def test_of_the_mlp_only_the_first_steps_are_traced():
    long = subject("net", rows=5000)
    operations, trace = core.profile_fit(long, watch())
    events = json.loads(gzip.decompress(trace))["traceEvents"]
    assert sum(event["name"] == "Optimizer.step#Adam.step" for event in events) == PROFILED_STEPS
    assert {operation.self_device_ms for operation in operations} == {None}


def test_of_many_operations_those_with_the_largest_shares_are_kept():
    many = [OPERATIONS[0].model_copy(update={"share": share / 100}) for share in range(30)]
    assert [operation.share for operation in instruments.top(many)] == [share / 100 for share in range(29, 19, -1)]


@pytest.mark.parametrize("phase", list(PhaseName))
def test_the_diagnosis_names_the_longest_phase(phase):
    seconds = dict.fromkeys(PhaseName, 1.0) | {phase: 6.0}
    assert core.diagnosis(seconds, OPERATIONS).startswith(f"Of 10.0 s, {core.DOING[phase]} takes 60%")


def test_the_diagnosis_says_when_the_fit_waits():
    seconds = dict.fromkeys(PhaseName, 0.0)
    slow = seconds | {PhaseName.READ: 1.0, PhaseName.FIT: 1.0}
    quick = seconds | {PhaseName.READ: 0.1, PhaseName.FIT: 1.0}
    assert "waits 50% of the time for its rows" in core.diagnosis(slow, OPERATIONS)
    assert core.diagnosis(quick, OPERATIONS).endswith("within the fit, aten::mm takes most, 40%.")


def test_the_diagnosis_says_when_nothing_of_a_fit_ran_on_the_gpu():
    """Weighted words are fitted on the CPU, whatever the device of their run is."""
    seconds = dict.fromkeys(PhaseName, 0.0) | {PhaseName.FIT: 1.0}
    assert core.diagnosis(seconds, []).endswith("no operation of it ran on the GPU.")


def test_what_the_trace_shows_of_a_gpu_is_found(tmp_path):
    events = Events().kernel("sgemm", 0, 100, launched=(-9, 5)).kernel("sgemm", 300, 100, launched=(290, 5))
    trace = Path(save(tmp_path / "trace.json.gz", events)).read_bytes()
    assert traces.diagnose(trace)[0].title == "Gaps between kernels (launch-bound)"
