"""What traces say: shares that add up, and a diagnosis that names what costs most."""

import re
from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import arithmetic, breakdown, kernels, read
from nightshift_perf.traces.analysis import Known, analyze
from nightshift_perf.traces.ceiling import KernelCounters, find
from nightshift_perf.traces.gaps import Cause
from packages.perf.tests.traces.samples import LOADER, TO_DEVICE, Events

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
ROOT = Path(__file__).parents[5] / "shared/data/traces"
published = pytest.mark.skipif(not ROOT.exists(), reason="the published traces, ../shared/data/traces, are not here")


def profile_traces(*traces, **known):
    return analyze(traces, Known(**known))


def titles(profile):
    return [finding.title for finding in profile.diagnosis]


def busy(start=0, end=10_000):
    """One step with one kernel from its start to its end, launched before."""
    return Events().steps((start, end)).kernel("sgemm", start, end - start, launched=(start - 9, 5))


def test_every_moment_of_a_step_has_one_part(tmp_path):
    events = Events().steps((0, 1000)).add("op", LOADER, 0, 200)
    events.copy(TO_DEVICE, 250, 50, launched=(220, 85), bytes=1)
    events.kernel("sgemm", 350, 250, launched=(340, 5)).kernel("gemm_2", 500, 200, launched=(345, 5), stream=8)
    events.kernel(NCCL, 650, 100, launched=(346, 2), stream=9)
    events.add("call", "cudaStreamSynchronize", 700, 60).kernel("relu", 900, 50, launched=(880, 5))
    one = breakdown.measure(events.trace(tmp_path), 0)

    assert (one.busy, one.compute, one.communication, one.exposed_communication) == (500, 400, 100, 50)
    assert (one.exposed_copies, one.exposed_pageable, one.loading) == (50, 50, 200)
    # from 220 the host is in the copy; at 300 the GPU runs dry during it, at 750 during the synchronization
    assert one.idle == {
        Cause.DATA: 200,
        Cause.COPY: 30 + 50,
        Cause.SYNC: 150,
        Cause.ALLOCATION: 0,
        Cause.LAUNCH: 20 + 50,
        Cause.PAUSE: 0,
        Cause.DEVICE: 0,
    }
    profile = profile_traces(events.trace(tmp_path))
    assert sum(part.pct for part in profile.breakdown) == pytest.approx(100)
    assert profile.step_ms == 1.0
    assert profile.step_times_ms == [1.0]
    won = [(finding.title, finding.won_ms) for finding in profile.diagnosis if finding.won_ms is not None]
    assert won == [
        ("The data loader", 0.2),
        ("Synchronizations", 0.15),
        ("Copies from pageable memory", 0.13),
        ("Gaps between kernels (launch-bound)", 0.07),
        ("Exposed communication", 0.05),
    ]


def test_what_was_launched_before_the_gap_waits_for_the_gpu_itself(tmp_path):
    events = Events().steps((0, 100)).kernel("a", 0, 40, launched=(-20, 5)).kernel("b", 50, 50, launched=(10, 5))
    one = breakdown.measure(events.trace(tmp_path), 0)
    assert (one.idle[Cause.DEVICE], one.idle[Cause.LAUNCH]) == (10, 0)
    first = profile_traces(events.trace(tmp_path)).diagnosis[0]
    assert (first.title, first.won_pct) == ("Waits on the GPU itself", 10)


@pytest.mark.parametrize(
    ("kernel", "end", "first"),
    [
        ("sgemm", 9_600, "Arithmetic without tensor cores"),  # 4 % are lost
        ("relu", 9_600, "The GPU is the limit"),
        ("sgemm", 9_400, "Gaps while the host does something else"),  # 6 %: 1.2 ms in one gap
    ],
)
def test_a_busy_gpu_is_told_before_small_losses(kernel, end, first, tmp_path):
    events = Events().steps((0, 20_000)).kernel(kernel, 0, 2 * end, launched=(-9, 5))
    assert titles(profile_traces(events.trace(tmp_path)))[0] == first


def test_arithmetic_of_a_gpu_that_hardly_computes_is_not_told(tmp_path):
    events = Events().steps((0, 10_000)).kernel("sgemm", 0, 90, launched=(-9, 5))
    assert titles(profile_traces(events.trace(tmp_path))) == ["Gaps while the host does something else"]


WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def computing(until=500, end=1000):
    """A step that begins with a kernel."""
    return Events().steps((0, end)).kernel("sgemm", 0, until, launched=(-5, 3))


LOADER_WAITS, PAUSE, SYNC, DEVICE = (
    "The data loader", "Gaps while the host does something else", "Synchronizations", "Waits on the GPU itself",
)  # fmt: skip
# events, what is said first, milliseconds that can be won, and a part of the evidence and the fix
WAITS = {
    "for a data loader": (
        Events().steps((0, 1000)).add("op", LOADER, 0, 300).kernel("sgemm", 300, 700, launched=(299, 1)),
        (LOADER_WAITS, 0.3, r"30\.0 % of the step.*raise num_workers"),
    ),
    "for a data loader with workers": (
        Events().steps((0, 1000)).add("range", WORKERS, 0, 300).kernel("sgemm", 300, 700, launched=(299, 1)),
        (LOADER_WAITS, 0.3, "prefetch_factor"),
    ),
    "while the host is in a range of its own": (
        computing(3000, 10_000).add("range", "save_checkpoint", 3000, 6000).kernel("sgemm", 9000, 1000, (8999, 1)),
        (PAUSE, 6.0, "save_checkpoint"),
    ),
    "for a synchronization until the host has caught up": (
        computing().add("call", "cudaStreamSynchronize", 10, 492).kernel("sgemm", 700, 300, launched=(690, 3)),
        (SYNC, 0.2, "1 times per step"),
    ),
    "long after a synchronization, which is the host's own": (
        computing(end=100_000)
        .add("call", "cudaStreamSynchronize", 10, 492)
        .kernel("sgemm", 60_000, 40_000, (59_990, 3)),
        (PAUSE, 59.498, ""),
    ),
    "before work that was launched, whatever the host waits for": (
        computing().add("call", "cudaStreamSynchronize", 10, 790).kernel("sgemm", 800, 200, launched=(5, 4)),
        (DEVICE, 0.3, ""),
    ),
    "before work that the GPU does not start": (
        computing(end=100_000)
        .add("call", "cudaStreamSynchronize", 600, 79_000)
        .kernel("sgemm", 80_000, 20_000, (520, 5)),
        (DEVICE, 79.0, ""),
    ),
    "before work that a GPU of AMD does not start": (
        computing(end=100_000)
        .add("call", "hipMemcpyWithStream", 600, 79_000)
        .kernel("sgemm", 80_000, 20_000, (520, 5)),
        (DEVICE, 79.0, ""),
    ),
    "for a launch that lasts, which is the host's": (
        computing(end=10_000)
        .add("op", "aten::conv2d", 480, 8_500)
        .kernel("sgemm", 9_000, 1_000, launched=(490, 8_400)),
        (PAUSE, 8.5, "aten::conv2d"),
    ),
    "for a value that is read from the GPU": (
        computing().copy("Memcpy DtoH (Device -> Pageable)", 500, 2, (10, 494)).kernel("sgemm", 700, 300, (690, 3)),
        (SYNC, 0.198, ""),
    ),
    "for an allocation": (
        computing().add("call", "cudaMalloc", 450, 300).kernel("sgemm", 760, 240, launched=(755, 3)),
        ("Allocation of memory", 0.26, ""),
    ),
}


@pytest.mark.parametrize(("events", "said_first"), WAITS.values(), ids=WAITS)
def test_what_the_gpu_waits_for_is_told_first(events, said_first, tmp_path):
    profile = profile_traces(events.trace(tmp_path))
    first, (title, won_ms, text) = profile.diagnosis[0], said_first
    assert (first.title, first.won_ms) == (title, won_ms)
    assert first.won_pct == pytest.approx(100 * won_ms / profile.step_ms, abs=0.01)
    assert re.search(text, f"{first.evidence} {first.fix}")


def test_a_loader_that_works_beside_the_gpu_costs_nothing(tmp_path):
    events = busy().add("op", LOADER, 0, 9_000)
    profile = profile_traces(events.trace(tmp_path))
    assert profile.data_wait_pct == 90
    assert "The data loader" not in titles(profile)


def test_copies_from_pageable_memory_are_told_and_pinned_ones_are_not(tmp_path):
    def copying(name):
        events = Events().steps((0, 1000)).copy(name, 100, 400, launched=(0, 550), bytes=8_000_000)
        return profile_traces(events.kernel("sgemm", 600, 400, launched=(590, 5)).trace(tmp_path))

    first = copying(TO_DEVICE).diagnosis[0]
    assert (first.title, first.won_ms) == ("Copies from pageable memory", 0.6)
    assert "8 MB" in first.evidence
    assert "pin" in first.fix.lower()
    assert "Copies from pageable memory" not in titles(copying("Memcpy HtoD (Pinned -> Device)"))


def test_many_short_kernels_are_launch_bound(tmp_path):
    events = Events().steps((0, 1000))
    for number in range(20):
        events.kernel("relu", 50 * number + 20, 10, launched=(50 * number + 11, 5))
    first = profile_traces(events.trace(tmp_path)).diagnosis[0]
    assert (first.title, first.won_ms) == ("Gaps between kernels (launch-bound)", 0.8)
    assert "20 kernels per step, 100 % of them shorter" in first.evidence


def test_communication_counts_where_nothing_is_computed(tmp_path):
    events = Events().steps((0, 1000)).kernel("sgemm", 0, 600, launched=(-5, 3))
    events.kernel(NCCL, 400, 600, launched=(-2, 1), stream=20, **{
        "Collective name": "allreduce", "In msg nelems": 1_000_000, "Group size": 4, "dtype": "Float",
    })  # fmt: skip
    profile = profile_traces(events.trace(tmp_path))
    assert (profile.communication_pct, profile.exposed_communication_pct, profile.gpu_busy_pct) == (60, 40, 100)
    assert (profile.diagnosis[0].title, profile.diagnosis[0].won_ms) == ("Exposed communication", 0.4)
    (one,) = profile.collectives
    # nccl-tests: bytes / time * 2 (n - 1) / n
    assert (one.name, one.bytes, one.bus_gb_per_s) == ("all_reduce", 4_000_000, pytest.approx(10.0, rel=1e-3))


def test_slow_arithmetic_comes_last_without_a_promise(tmp_path):
    events = busy(end=8000).steps((0, 10_000))
    events.events.pop(0)
    profile = profile_traces(events.trace(tmp_path))
    assert titles(profile)[-1] == "Arithmetic without tensor cores"
    assert profile.diagnosis[-1].won_ms is None
    assert profile.tensor_core_pct == 0


def test_a_trace_without_a_gpu_shows_what_the_cpu_does(tmp_path):
    events = Events().steps((0, 100)).add("op", "aten::linear", 0, 50).add("op", "aten::addmm", 10, 30)
    profile = profile_traces(events.add("op", LOADER, 98, 2).trace(tmp_path))
    assert titles(profile) == ["No GPU in the trace", "The data loader"]
    assert (profile.gpu_busy_pct, profile.step_ms, profile.data_wait_pct) == (None, 0.1, 2)
    assert [(operation.name, operation.self_cpu_ms) for operation in profile.top_operations] == [
        ("aten::addmm", 0.03),
        ("aten::linear", 0.02),
    ]


@pytest.mark.parametrize("loader", [LOADER, WORKERS])
def test_a_loop_on_the_cpu_that_waits_for_its_loader_gets_the_diagnosis_of_one_on_a_gpu(loader, tmp_path):
    events = Events().steps((0, 1000), (1000, 2000))
    on_gpu = Events().steps((0, 1000), (1000, 2000))
    for start in (0, 1000):
        events.add("op", loader, start, 600).add("op", "aten::mm", start + 600, 300)
        on_gpu.add("op", loader, start, 600).kernel("sgemm", start + 610, 390, launched=(start + 601, 5))
    profile, other = profile_traces(events.trace(tmp_path)), profile_traces(on_gpu.trace(tmp_path))
    first, same = profile.diagnosis[0], other.diagnosis[0]
    assert (first.title, first.won_ms, first.won_pct, first.fix) == (same.title, same.won_ms, same.won_pct, same.fix)
    assert [(part.ms, part.is_idle) for part in profile.breakdown] == [(0.3, False), (0.6, True), (0.1, True)]


def test_without_steps_the_window_is_what_the_gpu_did(tmp_path):
    profile = profile_traces(Events().kernel("a", 100, 50).kernel("b", 250, 50).trace(tmp_path))
    assert (profile.step_ms, profile.gpu_busy_pct) == (None, 50)
    assert any("profiler.step()" in caveat for caveat in profile.caveats)


def test_several_gpus_of_one_trace_are_apart(tmp_path):
    events = Events().steps((0, 1000)).kernel("a", 0, 1000).kernel("a", 0, 500, device=1)
    profile = profile_traces(events.trace(tmp_path))
    assert [(rank_profile.device, rank_profile.gpu_busy_pct) for rank_profile in profile.ranks] == [(0, 100), (1, 50)]
    assert profile.gpu_busy_pct == 75


def rank(tmp_path, number, took, size=2, step=1000):
    events = Events().steps((0, step)).kernel("sgemm", 0, took, launched=(-5, 3))
    events.kernel(NCCL, took, step - took, launched=(-4, 3), stream=20)
    return events.trace(tmp_path, distributedInfo={"rank": number, "world_size": size})


def test_the_rank_that_computes_longest_is_the_straggler(tmp_path):
    profile = profile_traces(rank(tmp_path, 0, 600), rank(tmp_path, 1, 900))
    assert profile.imbalance_pct == pytest.approx(20)
    (straggler,) = (finding for finding in profile.diagnosis if finding.title == "A straggler")
    assert "rank 1" in straggler.evidence
    assert straggler.won_ms == pytest.approx(0.15)


def test_traces_of_several_world_sizes_are_fitted(tmp_path):
    profile = profile_traces(*(rank(tmp_path, 0, 1000, size, 1000 + 30 * (size - 1)) for size in (1, 2, 4)))
    scaling = profile.scaling
    assert [point.world_size for point in scaling.points] == [1, 2, 4]
    assert scaling.alpha_ms == pytest.approx(0.015, rel=1e-3)
    assert [point.efficiency for point in scaling.points] == pytest.approx([1, 1 / 1.03, 1 / 1.09], rel=1e-3)
    assert profile.imbalance_pct is None  # only ranks of one training wait for each other


def test_mfu_and_the_roofline_need_the_gpu_and_the_operations(tmp_path):
    trace = busy().trace(tmp_path, deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}])
    counted = [KernelCounters("sgemm", flops=5e10, bytes=1e9, time=10_000)]
    profile = profile_traces(trace, flops_per_step=97.5e9, precision="fp32", counted=counted)
    assert profile.mfu_pct == pytest.approx(50)  # 97.5 GFLOP in 10 ms of 19.5 TFLOP/s
    (point,) = profile.roofline.points
    assert (point.flops_per_byte, point.tflops) == (50, 5)
    with pytest.raises(UserError, match="fp8"):
        profile_traces(trace, flops_per_step=1e9, precision="fp8")


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("Tesla V100-DGXS-32GB", "v100-32gb"),
        ("NVIDIA A100-PG509-200", "a100-40gb"),
        ("NVIDIA A100 80GB PCIe", None),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H200", "h200-141gb"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("h100-80gb", "h100-80gb"),
        ("NVIDIA A10G", None),
        ("Quadro", None),
        ("", None),
    ],
)
def test_a_gpu_is_found_by_its_name_or_not_at_all(name, entry):
    spec = find(name)
    assert (spec.name if spec else None) == entry


def test_kernels_that_share_a_name_are_one(tmp_path):
    trace = Events().kernel("a", 0, 10).kernel("a", 5, 10, stream=8).kernel("b", 30, 5).trace(tmp_path)
    first, second = kernels.top_kernels([trace, trace], arithmetic.judge([trace]))
    assert (first.name, first.calls, first.total_ms, first.mean_us, first.pct) == ("a", 4, 0.04, 10, 80)
    assert second.calls == 2


# median of the steps in ms, GPU busy, data wait, communication; what has to be said first, what too, and what must not
PUBLISHED = {
    "resnet50_num_workers_0": ((153.0, 64.4, 29.7, 0.0), "The data loader", "Copies from pageable memory", ""),
    "resnet50_num_workers_4": (
        (125.2, 71.4, 1.0, 0.0),
        "Gaps between kernels (launch-bound)",
        "Copies from pageable memory",
        "The data loader",
    ),
    "a100_rank0_of_128": ((615.1, 44.5, 0.0, 32.2), "Exposed communication", "", "The data loader"),
    "nccl_data": ((222.4, 23.6, 0.0, 7.0), "Gaps between kernels (launch-bound)", "Exposed communication", ""),
}


@published
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_traces_get_their_known_figures_and_diagnosis(name):
    figures, first, too, absent = PUBLISHED[name]
    profile = profile_traces(read.read(str(ROOT / f"{name}.json.gz")))
    measured = (profile.step_ms, profile.gpu_busy_pct, profile.data_wait_pct, profile.communication_pct)
    assert measured == pytest.approx(figures, rel=0.02, abs=0.05)
    assert titles(profile)[0] == first
    assert too in ["", *titles(profile)]
    assert absent not in titles(profile)
