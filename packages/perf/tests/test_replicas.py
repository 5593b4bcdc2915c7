"""The parts of a training's step, and what keeps it from scaling, from times that are known."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nightshift.config.neural import Fit, Trainer
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift_perf import limits
from nightshift_perf.replicas import (
    FAULTS,
    SMALL_BUCKETS,
    Gradients,
    Process,
    ScalingCurve,
    ScalingMeasurement,
    ScalingSpec,
)
from packages.perf.tests.test_bubbles import one_f_one_b

FAST = Fit().model_dump(mode="json") | {"precision": "bf16", "compile": "default", "threads": 4}
NETWORK = ConfiguredNetwork("mlp", {"inputs": 3}, FAST)


def spec(parameters: dict[str, Any] | None = None, rows: int = 64, **trainer: Any) -> ScalingSpec:
    network = replace(NETWORK, parameters=FAST | (parameters or {}))
    return ScalingSpec("net", network, Trainer(**trainer).model_dump(mode="json"), "cpu", rows)


def measured(processes: Sequence[tuple[float, float]], exchange: float = 0.0, buckets: int = 1) -> ScalingMeasurement:
    """A training whose processes wait for rows and compute so long; the exchange adds a tenth where there is one."""
    step = max(map(sum, processes)) + exchange
    every = [Process(loading, computing, step) for loading, computing in processes]
    gradients = Gradients(exchange / 2, exchange / 4, buckets, bytes=1_000_000)
    return ScalingMeasurement(every, 100 * len(processes), cores=16, gradients=gradients)


def pipelined(seconds: tuple[float, ...], pieces: int = 4, cores: int = 16, steps: float | None = None) -> Any:
    """A training of one pipeline whose stages compute pieces that long forward, and exchange nothing."""
    orders = one_f_one_b(len(seconds), pieces, seconds)
    work = [sum(piece.seconds for piece in order) for order in orders]
    whole = steps or max(work) + 3 * sum(seconds) - 3 * max(seconds)
    every = [Process(0.0, own, whole, pieces=order) for own, order in zip(work, orders, strict=True)]
    return ScalingMeasurement(every, 100 * len(seconds), cores, pipeline=len(seconds))


ALONE = measured([(0.0, 1.0)])


def diagnose(run: ScalingMeasurement, job: ScalingSpec | None = None, alone: float = 1.0) -> list[Any]:
    return limits.diagnose_scaling(ScalingCurve(job or spec(), [measured([(0.0, alone)]), run]))


@pytest.mark.parametrize(
    ("scaled", "title", "won_ms", "setting", "gain"),
    [
        (measured([(0.5, 1.0), (0.5, 1.0)]), "The data loader", 500, "", None),
        (measured([(0.0, 1.0), (0.0, 2.0)]), "A straggler", 500, "", None),
        (
            measured([(0.0, 1.0), (0.0, 1.0)], exchange=0.4),
            "Exposed communication",
            400,
            "task.trainer.compression",
            100 * 0.2 / 1.2,
        ),
        (
            measured([(0.0, 1.0), (0.0, 1.0)], exchange=0.4, buckets=50),
            "Gradients in small pieces",
            400,
            "task.trainer.bucket_mb",
            100 * 0.2 / 1.2,
        ),
        (measured([(0.0, 1.3), (0.0, 1.3)]), "Processes that slow each other down", 300, "", None),
    ],
)
def test_what_takes_the_time_is_named_with_what_it_costs_and_the_setting_that_helps(
    scaled: ScalingMeasurement, title: str, won_ms: float, setting: str, gain: float | None
) -> None:
    (finding,) = diagnose(scaled)

    assert (finding.title, finding.won_ms, finding.setting) == (title, pytest.approx(won_ms), setting)
    assert finding.won_pct == pytest.approx(won_ms / 10 / scaled.step, abs=0.01)
    assert finding.expected_gain_pct == (None if gain is None else pytest.approx(gain, abs=0.1))


def test_what_costs_most_comes_first_and_a_straggler_is_named_with_the_time_others_have_its_core() -> None:
    scaled = measured([(0.1, 1.0), (0.1, 1.0), (0.1, 1.0), (0.1, 1.0)], exchange=3.5)
    slow = replace(scaled.processes[2], queued=3.0)

    causes = diagnose(replace(scaled, processes=[*scaled.processes[:2], slow, scaled.processes[3]]))

    assert [finding.title for finding in causes] == ["A straggler", "Exposed communication", "The data loader"]
    assert causes[0].evidence == (
        "Process 2 takes 122% longer than the mean. Other programs have its core for 3,000 ms of a step."
    )


def test_processes_that_lose_nothing_scale_perfectly() -> None:
    pair = measured([(0.0, 1.0), (0.0, 1.0)])

    assert diagnose(pair) == []
    assert (ALONE.efficiency(ALONE), pair.efficiency(ALONE), pair.speed) == (1, 1, 200)
    assert measured([(0.0, 1.0), (0.0, 1.0)], exchange=0.25).efficiency(ALONE) == pytest.approx(0.8)


def test_the_computation_itself_is_last_with_settings_that_only_trying_tells() -> None:
    *_, first, second = diagnose(measured([(0.0, 1.0)] * 2), spec({"precision": "float32", "compile": "none"}))

    assert [first.setting, second.setting] == [
        "task.candidates.net.parameters.precision",
        "task.candidates.net.parameters.compile",
    ]
    assert first.won_ms is second.won_ms is first.expected_gain_pct is None


@pytest.mark.parametrize(
    "run",
    [
        measured([(0.1, 1.0), (0.0, 2.0), (0.3, 0.5), (0.0, 1.0)], exchange=0.4),
        replace(measured([(0.1, 1.0), (0.0, 2.0), (0.3, 0.5), (0.0, 1.0)], exchange=2.4), cores=2),
        pipelined((0.5, 1.0, 0.5, 0.5), steps=30.0),
        pipelined((0.5, 1.0, 0.5, 0.5), cores=2, steps=30.0),
    ],
)
def test_the_parts_of_a_step_add_up_to_it(run: ScalingMeasurement) -> None:
    parts = (run.computing, run.loading, run.bubble, run.waiting, run.sharing, run.exchanging)

    assert sum(parts) == pytest.approx(run.step)
    assert min(parts) >= 0


def test_processes_that_share_cores_are_as_efficient_as_their_cores() -> None:
    four = [Process(0.0, 1.0, 2.0, queued=1.0)] * 4

    shared = ScalingMeasurement(four, 400, cores=2)

    assert shared.efficiency(ALONE) == pytest.approx(1)
    assert (shared.computing, shared.sharing, shared.exchanging) == (1.0, 1.0, 0.0)


def test_a_bubble_is_measured_beside_its_formula_and_more_microbatches_fill_it() -> None:
    run = pipelined((0.5, 0.5))

    (finding, *_) = diagnose(run, spec({"microbatches": 4}, pipeline=2), alone=6.0)

    assert run.bubble_share == pytest.approx(1 / 5)
    assert finding.title == "The pipeline's bubble"
    assert finding.won_pct == pytest.approx(20)
    assert "20.0% of the pipeline's time with 4 microbatches; (p - 1) / (v m + p - 1) is 20.0%" in finding.evidence
    assert (finding.setting, finding.value) == ("task.candidates.net.parameters.microbatches", 8)
    assert finding.expected_gain_pct == pytest.approx(100 * (8 / 9) / (4 / 5) - 100, abs=0.1)


def test_stages_of_unequal_length_are_told_from_the_bubble() -> None:
    findings = {
        finding.title: finding for finding in diagnose(pipelined((0.5, 1.0)), spec({"microbatches": 4}, pipeline=2))
    }

    assert findings["Stages of unequal length"].won_ms == pytest.approx(1e3 * (13.5 - 11.25))
    assert "of process 1 of a pipeline compute 33% longer" in findings["Stages of unequal length"].evidence


@pytest.mark.parametrize(
    ("layout", "exchanged"),
    [
        ({"tensor": 2}, "sum the activations of every layer"),
        ({"shard": 2}, "gather each block's"),
        ({"zero": 3}, "gather each block's"),
        ({"shard": 2, "context": 2}, "gather keys and values"),
        ({"pipeline": 2}, "hand each other the activations"),
    ],
)
def test_what_a_layout_exchanges_is_named(layout: dict[str, int], exchanged: str) -> None:
    run = replace(measured([(0.0, 1.0), (0.0, 1.0)], exchange=0.4), gradients=None)

    (finding,) = diagnose(run, spec(**layout))

    assert (finding.title, finding.setting) == ("Exposed communication", "")
    assert exchanged in finding.evidence


def test_every_process_has_as_many_rows_as_one_alone_and_a_core() -> None:
    parameters = [spec().request(count)["parameters"] for count in (1, 4)]

    assert [(values["batch_size"], values["threads"]) for values in parameters] == [(64, 1), (256, 1)]
    assert replace(spec(), device="cuda").request(1)["parameters"]["threads"] == 4


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_injected_into_the_processes_or_into_their_setting(fault: str) -> None:
    request = replace(spec(), fault=fault).request(2)

    assert (request["fault"] == fault) == (fault != SMALL_BUCKETS)
    assert (request["trainer"]["bucket_mb"] == Trainer().bucket_mb) == (fault != SMALL_BUCKETS)
