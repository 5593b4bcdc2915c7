"""The search for the fastest variant, with sides whose speed is known."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from subprocess import PIPE, Popen
from typing import Any

import numpy as np
import pytest

from nightshift.config.neural import Fit, Trainer
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.runtime.errors import UserError
from nightshift_perf import tuning
from nightshift_perf.tuning import AXES, Search, Stretch, Tried, Tuned, TuningSetting, Variant, VariantProcess

PARAMETERS = Fit().model_dump(mode="json") | {"hidden": 8, "channels_last": True}
INITIAL = Variant(PARAMETERS, Trainer().model_dump(mode="json"))
SETTING = TuningSetting("cpu", ConfiguredNetwork("mlp", {"inputs": 3}, PARAMETERS), rows=1000, axes=list(AXES), cores=4)


class Fake:
    """A side that takes so many seconds for 100 rows, again and again."""

    def __init__(self, variant: Variant, setting: TuningSetting, seconds: Callable[[], float], gpu: str = "") -> None:
        self.variant, self.setting, self._seconds = variant, setting, seconds
        self.flops, self.gpu, self.arithmetic, self.has_ended = 1e6, gpu, "bf16", False

    def __enter__(self) -> "Fake":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def stretch(self) -> Stretch:
        return Stretch(100, taken := self._seconds(), 2 * taken)


def searched(
    factors: dict[tuple[str, Any], float],
    initial: Variant = INITIAL,
    setting: TuningSetting = SETTING,
    noise: float = 0,
    seed: int = 0,
) -> tuple[Tuned, list[Tried]]:
    """Search where values take so many times as long; 0 is one that cannot be."""
    random, tried = np.random.default_rng(seed), []

    def start(variant: Variant) -> Fake:
        slowdowns = [factor for (axis, value), factor in factors.items() if variant.value(axis) == value]
        if 0 in slowdowns:
            raise UserError("no compiler")
        return Fake(variant, setting, lambda: float(np.prod(slowdowns) * random.lognormal(0, noise)))

    return tuning.tune(initial, Search(start, setting, tried.append)), tried


def test_the_fastest_value_of_each_axis_is_kept_and_the_whole_is_measured_beside_what_was_given() -> None:
    factors = {("threads", 4): 1.3, ("precision", "bf16"): 0.5, ("compile", "default"): 0.8, ("batch_size", 512): 0.9}
    factors |= {("batch_size", 1024): 0.7}

    tuned, tried = searched(factors, setting=replace(SETTING, batch_sizes=[512, 1024]), noise=0.02)

    assert tuned.changes == {"precision": "bf16", "compile": "default", "batch_size": 1024}
    assert tuned.best.parameters == {**PARAMETERS, **tuned.changes}
    assert tuned.is_faster and tuned.total
    assert tuned.total.gain == pytest.approx(1 / (0.5 * 0.8 * 0.7) - 1, rel=0.05)
    assert tuned.total.after.rows / tuned.total.before.rows == pytest.approx(1 / (0.5 * 0.8 * 0.7), rel=0.05)
    names = [(trial.axis, trial.value) for trial in tried if trial.axis != "batch_size"]
    assert names == [("threads", 4), ("precision", "bf16"), ("compile", "default")]


def test_an_axis_begins_where_the_one_before_has_ended() -> None:
    """With bf16, compiling does not pay."""
    both = {("precision", "bf16"): 0.5, ("compile", "default"): 0.9}

    def start(variant: Variant) -> Fake:
        values = variant.value("precision"), variant.value("compile")
        seconds = {("bf16", "default"): 0.6, ("bf16", "none"): 0.5, ("float32", "default"): 0.9}.get(values, 1.0)
        return Fake(variant, SETTING, lambda: seconds)

    tuned = tuning.tune(INITIAL, Search(start, SETTING, lambda _: None))

    assert tuned.changes == {"precision": "bf16"}
    assert searched(both)[0].changes == {"precision": "bf16", "compile": "default"}


def test_noise_and_a_win_within_the_tolerance_are_seldom_taken() -> None:
    factors = {("precision", "bf16"): 1.0, ("compile", "default"): 0.98}

    changed = [seed for seed in range(8) if searched(factors, noise=0.2, seed=seed)[0].changes]

    assert not changed


def test_a_win_is_found_in_spite_of_noise() -> None:
    tuned, _ = searched({("precision", "bf16"): 0.7}, noise=0.2)

    assert tuned.changes == {"precision": "bf16"}


def test_what_cannot_run_is_said_and_the_search_goes_on() -> None:
    tuned, tried = searched(
        {("compile", "default"): 0, ("recompute", "none"): 0.8},
        replace(INITIAL, parameters={**PARAMETERS, "recompute": "full"}),
    )

    assert [trial.refused for trial in tried if trial.axis == "compile"] == ["no compiler"]
    assert tuned.changes == {"recompute": "none"}


def test_a_value_is_not_blamed_when_the_best_so_far_ends_beside_it() -> None:
    def start(variant: Variant) -> Fake:
        def seconds() -> float:
            side.has_ended = variant == INITIAL
            if side.has_ended:
                raise UserError("it ended")
            return 1.0

        side = Fake(variant, SETTING, seconds)
        return side

    search = Search(start, SETTING, lambda _: None)

    assert [trial.refused for trial in search.along("compile", INITIAL)] == [
        "the best so far has ended beside it: it ended"
    ]


@pytest.mark.slow
def test_what_libraries_print_is_no_answer() -> None:
    side, answer = VariantProcess(INITIAL, SETTING), {"rows": 1, "seconds": 2.0, "cpu_seconds": 3.0}
    lines = ["NCCL version 2.27.5", "[1]", "3", "", json.dumps(answer)]
    side._process = Popen([sys.executable, "-c", f"print({chr(10).join(lines)!r})"], stdin=PIPE, stdout=PIPE, text=True)

    assert side.stretch() == Stretch(**answer)
    with pytest.raises(UserError, match="it ended; what it says stands above"):
        side.stretch()
    assert side.has_ended
    side.__exit__()


def test_images_are_also_laid_out_otherwise() -> None:
    setting = replace(
        SETTING, network=ConfiguredNetwork("resnet", {"side": 8, "channels": 1, "classes": 2}, PARAMETERS)
    )

    tuned, tried = searched({("channels_last", False): 0.5}, setting=setting)

    assert tuned.changes == {"channels_last": False}
    assert [trial.value for trial in tried if trial.axis == "channels_last"] == [False]


def test_what_is_there_and_cannot_run_is_an_error() -> None:
    with pytest.raises(UserError, match="no compiler"):
        searched({("compile", "none"): 0})


@pytest.mark.parametrize(
    ("device", "processes", "trainer", "parameters", "values"),
    [
        ("cpu", 1, {}, {}, {"threads": [4], "precision": ["bf16"], "compile": ["default"]}),
        ("cpu", 2, {}, {"threads": 2}, {"threads": [1], "compression": ["bf16"], "bucket_mb": [100]}),
        ("cpu", 2, {"bucket_mb": 1}, {}, {"bucket_mb": [25, 100]}),
        ("cpu", 2, {"shard": 2}, {}, {"threads": [2], "compression": []}),
        ("cpu", 2, {"zero": 2}, {}, {"threads": [2], "compression": []}),
        ("cuda", 1, {}, {"precision": "bf16"}, {"threads": [], "precision": ["float32", "fp16"]}),
        ("cuda", 1, {}, {}, {"compile": ["default", "cuda-graphs"]}),
        ("cuda", 2, {}, {}, {"compile": ["default"]}),
        ("cpu", 1, {}, {}, {"channels_last": []}),
        ("cuda", 1, {}, {"microbatches": 2}, {"microbatches": [1]}),
        ("cuda", 2, {"pipeline": 2}, {"microbatches": 2}, {"microbatches": [4, 8], "compression": []}),
        ("cpu", 2, {"pipeline": 2}, {}, {"schedule": ["interleaved", "zero-bubble"], "bucket_mb": []}),
        ("cpu", 4, {"pipeline": 2, "shard": 2}, {}, {"schedule": ["interleaved"]}),
        ("cuda", 1, {}, {"microbatches": 2, "recompute": "full"}, {"compile": ["default"], "recompute": ["none"]}),
    ],
)
def test_an_axis_has_the_values_that_apply(
    device: str, processes: int, trainer: dict[str, Any], parameters: dict[str, Any], values: dict[str, list[Any]]
) -> None:
    variant = Variant({**PARAMETERS, **parameters}, {**INITIAL.trainer, **trainer}, processes)

    _, tried = searched({}, variant, replace(SETTING, device=device, processes=[processes]))

    assert {axis: [trial.value for trial in tried if trial.axis == axis] for axis in values} == values


@pytest.mark.parametrize(
    ("gpu", "arithmetic", "used"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 1e12 / 989e12),
        ("NVIDIA H100 80GB HBM3", "fp32", 1e12 / 67e12),
        ("NVIDIA H100 80GB HBM3", "tf32", 1e12 / 494.5e12),
        ("Tesla T4", "bf16", None),
        ("Unheard Of", "bf16", None),
    ],
)
def test_a_gpu_is_used_as_its_data_sheet_says_for_the_precision(gpu: str, arithmetic: str, used: float | None) -> None:
    side = Fake(INITIAL, SETTING, lambda: 1e-4, gpu)
    side.arithmetic = arithmetic

    speed = tuning.speed(side, [side.stretch()])

    assert (speed.rows, speed.flops) == pytest.approx((1e6, 1e12))
    assert speed.used == (None if used is None else pytest.approx(used))


def test_a_cpu_is_used_as_the_processes_have_taken_of_its_time() -> None:
    side = Fake(INITIAL, SETTING, lambda: 0.1)

    assert tuning.speed(side, [side.stretch()]).used == 0.5
