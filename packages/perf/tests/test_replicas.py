"""What keeps a training from scaling, from times that are known."""

from collections.abc import Sequence

import pytest

from nightshift.config.neural import Trainer
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift_perf import replicas
from nightshift_perf.replicas import FAULTS, SMALL_BUCKETS, Process, ScalingMeasurement, ScalingSpec

NETWORK = ConfiguredNetwork("mlp", {"inputs": 3}, {"batch_size": 256, "threads": 4})


def measured(processes: Sequence[tuple[float, float]], exchange: float = 0.0, pieces: int = 1) -> ScalingMeasurement:
    """A training whose processes wait for rows and compute so long; the exchange adds a tenth where there is one."""
    step = max(map(sum, processes)) + exchange
    every = [Process(data, computing, step) for data, computing in processes]
    return ScalingMeasurement(every, exchange / 2, pieces, size=1_000_000, rows=100 * len(processes))


ALONE = measured([(0.0, 1.0)])


@pytest.mark.parametrize(
    ("scaled", "title", "won_ms"),
    [
        (measured([(0.5, 1.0), (0.5, 1.0)]), "The data loader", 500),
        (measured([(0.0, 1.0), (0.0, 2.0)]), "A straggler", 500),
        (measured([(0.0, 1.0), (0.0, 1.0)], exchange=0.4), "Exposed communication", 400),
        (measured([(0.0, 1.0), (0.0, 1.0)], exchange=0.4, pieces=50), "Gradients in small pieces", 400),
        (measured([(0.0, 1.3), (0.0, 1.3)]), "Processes that slow each other down", 300),
    ],
)
def test_what_takes_the_time_is_named_with_what_it_costs(scaled: ScalingMeasurement, title: str, won_ms: float) -> None:
    (finding,) = replicas.diagnose_scaling(ALONE, scaled)

    assert (finding.title, finding.won_ms) == (title, pytest.approx(won_ms))
    assert finding.won_pct == pytest.approx(won_ms / 10 / scaled.step, abs=0.01)


def test_what_costs_most_comes_first_and_a_straggler_is_named() -> None:
    causes = replicas.diagnose_scaling(ALONE, measured([(0.1, 1.0), (0.1, 1.0), (0.1, 4.0), (0.1, 1.0)], exchange=0.5))

    assert [finding.title for finding in causes] == ["A straggler", "Exposed communication", "The data loader"]
    assert causes[0].evidence.startswith("Process 2 takes 122% longer than the mean")


def test_processes_that_lose_nothing_scale_perfectly() -> None:
    pair = measured([(0.0, 1.0), (0.0, 1.0)])

    assert replicas.diagnose_scaling(ALONE, pair) == []
    assert (ALONE.efficiency(ALONE), pair.efficiency(ALONE), pair.speed) == (1, 1, 200)
    assert measured([(0.0, 1.0), (0.0, 1.0)], exchange=0.25).efficiency(ALONE) == pytest.approx(0.8)


def test_every_process_has_as_many_rows_as_one_alone_and_a_core() -> None:
    job = ScalingSpec(NETWORK, Trainer().model_dump(mode="json"), "cpu", rows=64)

    assert [job.request(count)["parameters"] for count in (1, 4)] == [
        {"batch_size": 64, "threads": 1},
        {"batch_size": 256, "threads": 1},
    ]
    assert ScalingSpec(NETWORK, {}, "cuda", rows=64).request(1)["parameters"]["threads"] == 4


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_planted_in_the_processes_or_in_their_setting(fault: str) -> None:
    request = ScalingSpec(NETWORK, Trainer().model_dump(mode="json"), "cpu", rows=64, fault=fault).request(2)

    assert (request["fault"] == fault) == (fault != SMALL_BUCKETS)
    assert (request["trainer"]["bucket_mb"] == Trainer().bucket_mb) == (fault != SMALL_BUCKETS)
