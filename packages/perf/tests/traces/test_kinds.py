"""Trainings that lose time in ways of their own, written by hand: what costs most is said first, shares are shares.

Each kind is written three times, with other times and numbers of steps.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from nightshift.config.neural import Fit, Trainer
from nightshift_perf.traces import section
from nightshift_perf.traces.analysis import Known, analyze
from packages.perf.tests.traces.samples import LOADER, Events

RIGHT = 0.9
GEMM, POINTWISE = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "void at::native::vectorized_elementwise_kernel<4>(int)"
NCCL, SEND_RECV = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "ncclDevKernel_SendRecv(ncclDevComm*)"
H100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]}
FULL = {"blocks per SM": 8.0, "est. achieved occupancy %": 75}
GAPS, LIMIT = "Gaps while the host does something else", "The GPU is the limit"


class Loop:
    """Steps one after the other; each is written by a function that returns when the step ends."""

    def __init__(self, seed):
        self.random, self.events, self.at = np.random.default_rng(seed), Events(), 0.0
        self.count = 6 + 2 * seed

    def vary(self, took):
        return took * self.random.uniform(0.95, 1.05)

    def steps(self, write):
        for number in range(self.count):
            end = write(number)
            self.events.steps((self.at, end))
            self.events.events[-1]["name"] = f"ProfilerStep#{number}"
            self.at = end
        return self.events

    def gemm(self, start, took, name=GEMM, **args):
        self.events.kernel(name, start, took, launched=(start - 6, 5), **(FULL | args))
        return start + took


def ahead(loop):
    """The host launches ten steps while the GPU does one."""
    began = loop.vary(50)
    for number in range(loop.count):
        loop.events.kernel(GEMM, began + 10_000 * number, 10_000, launched=(1000 * number + 10, 5), **FULL)
    return loop.steps(lambda number: loop.at + 1000)


def compiling(loop):
    def step(number):
        if number == 0:
            loop.events.add("range", "Torch-Compiled Region compile", loop.at, 2e6)
            return loop.gemm(loop.at + 2e6 + 10, 900)
        return loop.gemm(loop.at + 7, loop.vary(9000))

    return loop.steps(step)


def workers_start(loop):
    """Only the first step waits for its loader, whose workers start."""

    def step(number):
        waits = 800_000 if number == 0 else 10
        loop.events.add("op", LOADER, loop.at, waits)
        return loop.gemm(loop.at + waits + 7, loop.vary(9000))

    return loop.steps(step)


def loader_on_cpu(loop):
    def step(_):
        waits = loop.vary(30_000)
        loop.events.add("op", LOADER, loop.at, waits).add("op", "aten::addmm", loop.at + waits, 8000)
        return loop.at + waits + 8100

    return loop.steps(step)


def unified_memory(loop):
    def step(_):
        end = loop.gemm(loop.at + 7, loop.vary(20_000))
        for number in range(8):
            loop.events.copy("Memcpy HtoD (Unified memory)", loop.at + 100 + 2000 * number, 1500, bytes=2 << 20)
        return end

    return loop.steps(step)


def small_grids(loop):
    small = {"blocks per SM": 0.1, "est. achieved occupancy %": 2}
    return loop.steps(lambda _: loop.gemm(loop.at + 7, loop.vary(9000), **small))


def low_occupancy(loop):
    few = {"blocks per SM": 30.0, "est. achieved occupancy %": 12}
    return loop.steps(lambda _: loop.gemm(loop.at + 7, loop.vary(9000), name=POINTWISE, **few))


def hot(loop):
    """The same kernels take longer and longer."""
    return loop.steps(lambda number: loop.gemm(loop.at + 7, 9000 * (1 + 0.6 * number / loop.count)))


def recompiling(loop):
    """Every step has another shape, and compiles."""

    def step(_):
        compiles = loop.vary(50_000)
        loop.events.add("range", "CompiledFxGraph", loop.at, compiles)
        return loop.gemm(loop.at + compiles + 7, 9000)

    return loop.steps(step)


def checkpoints(loop):
    def step(number):
        end = loop.gemm(loop.at + 7, loop.vary(9000))
        if number % 3 < 2:
            return end
        loop.events.add("range", "save_checkpoint", end, 60_000)
        return end + 60_000

    return loop.steps(step)


def bubble(loop):
    def step(_):
        end = loop.gemm(loop.at + 7, loop.vary(4000))
        loop.events.kernel(SEND_RECV, end, 5000, launched=(end - 9, 4), stream=20)
        return loop.gemm(end + 5000, 4000)

    return loop.steps(step)


def small_buckets(loop):
    """Gradients go in many pieces after the backward pass."""

    def step(_):
        end = loop.gemm(loop.at + 7, loop.vary(9000))
        for number in range(40):
            loop.events.kernel(NCCL, end + 150 * number, 150, launched=(end - 90 + number, 1), stream=20)
        return end + 6000

    return loop.steps(step)


def logging(loop):
    """The loss is read in every step, and the GPU runs dry."""

    def step(_):
        end = loop.gemm(loop.at + 7, loop.vary(4000))
        loop.events.add("call", "cudaStreamSynchronize", loop.at + 20, end - loop.at - 15)
        return end + 2000

    return loop.steps(step)


def unfused(loop):
    """An optimizer of thousands of small kernels."""

    def step(_):
        end = loop.gemm(loop.at + 7, loop.vary(2000))
        for _number in range(100):
            end = loop.gemm(end + 40, 5, name=POINTWISE, **{"blocks per SM": 0.3})
        return end

    return loop.steps(step)


def full_precision(loop):
    return loop.steps(lambda _: loop.gemm(loop.at + 7, loop.vary(9000), name="volta_sgemm_128x64_nt"))


# kind -> what is said first, and a setting that it names
KINDS = {
    ahead: (LIMIT, "compile=default"),
    compiling: (LIMIT, "compile=default"),
    workers_start: (LIMIT, "compile=default"),
    loader_on_cpu: ("The data loader", "num_workers=2"),
    unified_memory: ("Page migrations (unified memory)", "batch_size"),
    small_grids: ("Grids that do not fill the GPU", "batch_size"),
    low_occupancy: ("Low occupancy", "compile=default"),
    hot: ("A GPU that slows down", ""),
    recompiling: (GAPS, "compile=none"),
    checkpoints: (GAPS, "trainer.checkpoint_seconds"),
    bubble: ("Exposed communication", "trainer.schedule=zero-bubble"),
    small_buckets: ("Exposed communication", "trainer.bucket_mb"),
    logging: ("Synchronizations", ""),
    unfused: ("Gaps between kernels (launch-bound)", "compile=cuda-graphs"),
    full_precision: ("Arithmetic without tensor cores", "precision=bf16"),
}


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    known = Known(flops_per_step=1e13, precision="bf16")
    return {
        (kind, seed): analyze([kind(Loop(seed)).trace(folder, **H100)], known) for kind in KINDS for seed in range(3)
    }


def test_what_costs_most_is_said_first(profiles):
    wrong = {
        (kind.__name__, seed): profile.diagnosis[0].title
        for (kind, seed), profile in profiles.items()
        if profile.diagnosis[0].title != KINDS[kind][0]
    }
    assert len(wrong) <= (1 - RIGHT) * len(profiles), wrong


def test_the_first_finding_names_what_to_set(profiles):
    for (kind, _), profile in profiles.items():
        wanted = KINDS[kind][1]
        assert wanted in ["", *profile.diagnosis[0].settings], kind.__name__


def test_no_share_is_above_100_percent(profiles):
    for (kind, seed), profile in profiles.items():
        texts = [section.explain(finding) for finding in profile.diagnosis]
        printed = [float(number) for text in texts for number in re.findall(r"([\d.]+) %", text)]
        shares = [share.pct for share in profile.breakdown] + [one.won_pct or 0 for one in profile.diagnosis]
        figures = [value for name, value in vars(profile).items() if name.endswith("_pct") and value is not None]
        assert max([*printed, *shares, *figures]) <= 100.001, (kind.__name__, seed)
        assert sum(share.pct for share in profile.breakdown) == pytest.approx(100, abs=0.1)


def test_settings_are_keys_of_the_config(profiles):
    named = {setting for profile in profiles.values() for one in profile.diagnosis for setting in one.settings}
    assert len(named) > 5
    for setting in named - {"num_workers=2"}:  # of a program's own loader: see test_live.py
        key, _, value = setting.partition("=")
        kind, name = (Trainer, key.removeprefix("trainer.")) if key.startswith("trainer.") else (Fit, key)
        assert name in kind.model_fields, setting
        if value:
            kind.parse_value({name: value})


def test_a_clock_that_falls_is_found_by_its_samples(tmp_path):
    trace = full_precision(Loop(0)).trace(tmp_path, **H100)
    end = trace.window[1]
    clocks = np.array([[end * n / 40, 1980.0 if n < 10 else 1100.0] for n in range(40)])
    power = np.array([[end * n / 40, 699.0] for n in range(40)])
    counters = {(0, "GPC Clock Frequency [MHz]"): clocks, (0, "Power [W]"): power}
    first = analyze([replace(trace, counters=counters)], Known()).diagnosis[0]
    assert first.title == "A GPU that slows down"
    assert re.search(r"33 % below the highest.*Power \[W\] 699", first.evidence)
