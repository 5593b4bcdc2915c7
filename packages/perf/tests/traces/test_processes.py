"""A timeline is the same, however it is divided over processes, devices, threads, files and formats."""

import json
import sqlite3
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest

from nightshift_perf.traces import read
from nightshift_perf.traces.analysis import Known, analyze
from packages.perf.tests.traces.samples import CASES, Events, cases

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
STEPS, PERIOD = 5, 1000


def work(rank):
    """Return kernels of a rank: name, start, duration, and start of the call that launched it."""
    busy = 500 + 40 * rank
    for step in range(STEPS):
        at = PERIOD * step + 3 * rank
        yield "sgemm", at + 20, busy, at + 2
        yield NCCL, at + 30 + busy, 100, at + 9


def expected(rank):
    """Return milliseconds of a step, and percent of busy time and of communication."""
    return pytest.approx((1.0, 60 + 4 * rank, 10), abs=0.05)


def figures(profile):
    return [(one.step_ms, one.gpu_busy_pct, one.communication_pct) for one in profile.ranks]


def check(profile, ranks):
    """Compare all that is said with the truth about so many ranks."""
    assert sorted(figures(profile)) == [expected(rank) for rank in range(ranks)]
    assert profile.step_ms == pytest.approx(1.0, abs=0.01)
    assert profile.gpu_busy_pct == pytest.approx(np.mean([60 + 4 * rank for rank in range(ranks)]), abs=0.05)
    assert sum(share.pct for share in profile.breakdown) == pytest.approx(100)
    assert {one.name: one.calls for one in profile.top_kernels} == {"sgemm": STEPS * ranks, NCCL: STEPS * ranks}


def kineto(rank, *, pid=100, tid=7, lane=0, device=0, first=0, skew=0.0):
    """Return a rank's events: `lane` is the process under which the trace shows its GPU."""
    events = Events(zero=1e6 + skew)
    for step in range(STEPS):
        start = PERIOD * step + 3 * rank
        events.add("range", f"ProfilerStep#{step}", start, PERIOD, tid=tid, pid=pid)
    for number, (name, start, took, called) in enumerate(work(rank), first):
        events.add("call", "cudaLaunchKernel", called, 4, tid=tid, pid=pid, correlation=number)
        where = {"device": device, "stream": 7, "correlation": number}
        events.add("kernel", name, start, took, tid=7, pid=lane, **where)
    return events.events


def save(folder, name, *ranks, **about):
    path = folder / f"{name}.json"
    events = sorted((event for rank in ranks for event in rank), key=lambda event: event["ts"])
    path.write_text(json.dumps({"traceEvents": events, **about}))
    return str(path)


def nsight(folder, ranks, *, has_processes=True, devices=None):
    """Write the export of several processes, whose numbers of calls are the same."""
    path = str(folder / "ranks.sqlite")
    with closing(sqlite3.connect(path)) as database:
        owner = ", globalPid INT" if has_processes else ""
        database.executescript(f"""
            CREATE TABLE StringIds(id INT, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId INT, streamId INT, correlationId INT,
                demangledName INT{owner});
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INT, end INT, globalTid INT, correlationId INT, nameId INT);
            CREATE TABLE NVTX_EVENTS(start INT, end INT, eventType INT, globalTid INT, text TEXT);
        """)
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(0, "sgemm"), (1, NCCL), (2, "cudaLaunchKernel")])
        for rank in range(ranks):
            process, device = (4000 + rank) << 24, devices[rank] if devices else rank
            for number, (name, start, took, called) in enumerate(work(rank)):
                row = [1000 * start, 1000 * (start + took), device, 7, number, int(name == NCCL)]
                row += [process] if has_processes else []
                marks = ", ".join("?" * len(row))
                database.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", row)
                call = (1000 * called, 1000 * (called + 4), process + 11, number, 2)
                database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", call)
            for step in range(STEPS):
                start = 1000 * (PERIOD * step + 3 * rank)
                mark = (start, start + 1000 * PERIOD, 59, process + 11, f"step {step}")
                database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", mark)
        database.commit()
    return path


def own_files(folder, ranks):
    return [
        save(folder, f"rank{rank}", kineto(rank), distributedInfo={"rank": rank, "world_size": ranks})
        for rank in range(ranks)
    ]


DIVISIONS = {
    "a file each": own_files,
    "merged as they are": lambda f, n: [save(f, "m", *(kineto(r, pid=100 + r, lane=r, device=r) for r in range(n)))],
    "merged, calls numbered on": lambda f, n: [
        save(f, "m", *(kineto(r, pid=100 + r, lane=r, device=r, first=50 * r) for r in range(n)))
    ],
    "merged, each sees one GPU": lambda f, n: [save(f, "m", *(kineto(r, pid=100 + r, first=50 * r) for r in range(n)))],
    "merged, one GPU each and the same numbers": lambda f, n: [
        save(f, "m", *(kineto(r, pid=100 + r) for r in range(n)))
    ],
    "merged, processes renamed": lambda f, n: [
        save(f, "m", *(kineto(r, pid=f"rank{r} host", lane=f"rank{r} GPU 0") for r in range(n)))
    ],
    "merged with what the first rank says": lambda f, n: [
        save(
            f,
            "m",
            *(kineto(r, pid=100 + r, lane=r, device=r) for r in range(n)),
            distributedInfo={"rank": 0, "world_size": n},
        )
    ],
    "merged under the ranks' names, last first": lambda f, n: [
        save(f, "m", *(kineto(r, pid=f"rank{r}", lane=f"rank{r}", skew=-9 * PERIOD * r) for r in range(n)))
    ],
    "merged, one process a rank": lambda f, n: [save(f, "m", *(kineto(r, pid=r, lane=r, device=r) for r in range(n)))],
    "threads of one process": lambda f, n: [
        save(f, "m", *(kineto(r, tid=7 + r, lane=r, device=r, first=50 * r) for r in range(n)))
    ],
    "Nsight Systems": lambda f, n: [nsight(f, n)],
    "Nsight Systems, one GPU each": lambda f, n: [nsight(f, n, devices=[0] * n)],
    "Nsight Systems, no processes": lambda f, n: [nsight(f, n, has_processes=False)],
}


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("divide", DIVISIONS.values(), ids=DIVISIONS)
def test_the_figures_of_ranks_do_not_depend_on_how_they_are_recorded(divide, ranks, tmp_path):
    check(analyze([read.read(path) for path in divide(tmp_path, ranks)], Known()), ranks)


@pytest.mark.parametrize("seed", range(8))
def test_the_start_of_each_rank_changes_nothing(seed, tmp_path):
    random = np.random.default_rng(seed)
    skews = random.uniform(0, 5 * PERIOD, 3)
    ranks = [kineto(r, pid=100 + r, lane=r, device=r, skew=float(skews[r])) for r in range(3)]
    check(analyze([read.read(save(tmp_path, "m", *ranks))], Known()), 3)


def test_the_straggler_of_merged_ranks_is_named_with_its_process(tmp_path):
    profile = analyze([read.read(DIVISIONS["merged as they are"](tmp_path, 4)[0])], Known())
    (straggler,) = (one for one in profile.diagnosis if one.title == "A straggler")
    assert "GPU 3 of process 103" in straggler.evidence
    assert profile.imbalance_pct == pytest.approx(100 * 60 / 560, abs=0.01)


def test_gpus_of_one_process_and_processes_that_do_not_communicate_are_no_ranks(tmp_path):
    pipeline = Events().steps((0, 1000)).kernel("a", 0, 400).kernel("b", 400, 100, device=1)
    assert analyze([pipeline.trace(tmp_path)], Known()).imbalance_pct is None
    alone = [[event for event in kineto(r, pid=r, lane=r, device=r) if event["name"] != NCCL] for r in range(2)]
    profile = analyze([read.read(save(tmp_path, "m", *alone))], Known())
    assert (len(profile.ranks), profile.imbalance_pct) == (2, None)


STRAY = {
    "a stray kernel on a second GPU": lambda e: e.kernel("fill", 5, 3, device=1, kind="set"),
    "a stray kernel outside of the steps": lambda e: e.kernel("fill", -50, 3, device=1),
    "another process without steps": lambda e: e.add("call", "cudaLaunchKernel", 1, 1, pid=9, correlation=900).add(
        "kernel", "fill", 5, 3, pid=3, device=0, stream=7, correlation=900
    ),
}


@pytest.mark.parametrize("stray", STRAY.values(), ids=STRAY)
def test_a_gpu_that_does_next_to_nothing_is_named_and_not_averaged(stray, tmp_path):
    events = Events().steps((0, 1000), (1000, 2000))
    events.kernel("sgemm", 0, 800, launched=(-9, 2)).kernel("sgemm", 1000, 800, launched=(990, 2))
    profile = analyze([stray(events).trace(tmp_path)], Known())
    assert (profile.gpu_busy_pct, profile.step_ms, len(profile.ranks)) == (80, 1.0, 1)
    assert any("left out" in caveat for caveat in profile.caveats)


def test_an_idle_rank_is_a_rank(tmp_path):
    """It has its own process and steps: that it does nothing is what there is to see."""
    idle = [event for event in kineto(1, pid=101, lane=1, device=1) if event["name"] != "sgemm"]
    short = [event | {"dur": 1} if event["name"] == NCCL else event for event in idle]
    profile = analyze([read.read(save(tmp_path, "m", kineto(0, pid=100, device=0), short))], Known())
    assert [one.gpu_busy_pct for one in profile.ranks] == [60, pytest.approx(0.1)]


MARKS = {  # ranges as (name, start, end, thread), in steps of 10
    "PyTorch's": [(f"ProfilerStep#{n}", 10 * n, 10 * n + 10, 7) for n in range(4)],
    "of two threads": [
        (f"ProfilerStep#{n}", 10 * n + 5 * t, 10 * n + 5 * t + 10, 7 + t) for t in (0, 1) for n in range(4)
    ],
    "of ranks under one thread's number": [
        (f"step {n}", 10 * n + r, 10 * n + r + 9, 7) for n in range(4) for r in (0, 3)
    ],
    "that overlap the next": [(f"iteration {n}", 10 * n, 10 * n + 13, 7) for n in range(4)],
    "with parts": [(f"step {n}", 10 * n, 10 * n + 10, 7) for n in range(4)]
    + [(f"batch {n}", 5 * n, 5 * n + 5, 7) for n in range(8)],
    "without numbers": [("train_step", 10 * n, 10 * n + 10, 7) for n in range(4)],
    "as people write them": [(f"Iteration: {n}/4", 10 * n, 10 * n + 10, 7) for n in range(4)],
    "of epochs that begin anew": [(f"batch[{n % 2}]", 10 * n, 10 * n + 10, 7) for n in range(4)],
    "beside the optimizer's": [(f"step_{n}", 10 * n, 10 * n + 10, 7) for n in range(4)]
    + [("Optimizer.step#SGD.step", 10 * n + 8, 10 * n + 9, 7) for n in range(4)],
}


@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS)
def test_steps_are_those_of_one_rank_one_after_the_other(marks, tmp_path):
    events = Events()
    for name, start, end, thread in marks:
        events.add("range", name, start, end - start, tid=thread)
    for start in range(0, 40, 10):
        events.kernel("sgemm", start + 1, 5, launched=(start, 1))
    profile = analyze([events.trace(tmp_path)], Known())
    assert (profile.step_ms, profile.ranks[0].steps) == (pytest.approx(0.01, abs=3e-4), 4)
    assert (
        all(one <= other for one, other in pairwise(profile.step_times_ms[:-1])) or max(profile.step_times_ms) < 0.0131
    )


LAUNCHES, SYNCHRONIZATIONS = "Gaps between kernels (launch-bound)", "Synchronizations"
RIGHT = {  # ranks, and what is said first
    **dict.fromkeys(("control.json", "bare_na.json", "bom.json", "control_char.json"), (1, LAUNCHES)),
    **dict.fromkeys(("stray_gpu.json", "two_threads.json"), (1, LAUNCHES)),
    "nsys_2020_deviceId.sqlite": (1, SYNCHRONIZATIONS),
    "nsys_two_processes.sqlite": (2, SYNCHRONIZATIONS),
}


@cases
@pytest.mark.parametrize(("name", "right"), RIGHT.items(), ids=RIGHT)
def test_the_cases_have_their_right_values(name, right):
    profile = analyze([read.read(str(CASES / name))], Known())
    ranks, first = right
    assert [one.steps for one in profile.ranks] == [4] * ranks
    assert profile.step_ms == pytest.approx(10.0, abs=0.01)
    assert profile.gpu_busy_pct == pytest.approx(79.93, abs=0.02)
    assert profile.imbalance_pct is None
    assert profile.diagnosis[0].title == first
    assert "200 %" not in " ".join(one.evidence for one in profile.diagnosis)


def test_a_parent_that_marks_the_steps_of_its_only_worker_is_no_process_of_its_own(tmp_path):
    events = Events().add("range", "ProfilerStep#1", 0, 1000, pid=1, tid=1).add("op", "aten::mm", 0, 10)
    profile = analyze([events.kernel("sgemm", 100, 200, launched=(50, 5)).trace(tmp_path)], Known())
    assert (profile.step_ms, profile.gpu_busy_pct) == (1.0, 20)
