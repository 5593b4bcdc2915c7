"""Bandwidths of collectives, in nccl-tests' table and beside its output."""

from pathlib import Path

import pytest

from nightshift.contracts.listings import CollectivePoint
from nightshift.models.neural import nccl_tests
from nightshift.models.neural.collectives import check_bandwidth, describe_timing
from nightshift.runtime.errors import UnavailableError, UserError

# in the format of nccl-tests 2.13 and later, whose columns have the out-of-place figures first
LOG = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid  10125 on  node1 device  0 [0x0f] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    20.00    0.05    0.09      0    19.80    0.05    0.09      0
   134217728      33554432     float     sum      -1   1073.7  125.00  218.75      0   1070.1  125.43  219.50      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 109.42
"""


@pytest.mark.parametrize(
    ("name", "share", "count"),
    [
        ("all-reduce", 14 / 8, 250_000),
        ("all-gather", 7 / 8, 31_250),
        ("reduce-scatter", 7 / 8, 31_250),
        ("all-to-all", 7 / 8, 31_250),
        ("send-receive", 1, 250_000),
    ],
)
def test_counts_and_bus_bandwidth_are_those_of_nccl_tests(name: str, share: float, count: int) -> None:
    timing = describe_timing(name, size=1_000_000, seconds=0.001, count=8)

    assert timing.count == count
    assert timing.algorithm == pytest.approx(1e9)
    assert timing.bus == pytest.approx(share * 1e9)


def test_a_fabric_that_nccl_does_not_use_is_seen_at_the_largest_all_reduce() -> None:
    sizes = {"all-reduce": (1_000, 1_000_000_000), "all-gather": (2_000_000_000,)}
    points = [
        CollectivePoint(
            collective=name,
            size_bytes=size,
            count=1,
            seconds=0.1,
            algorithm_bytes_per_second=size / 0.1,
            bus_bytes_per_second=size / 0.1,
            reference_seconds=None,
            reference_bus_bytes_per_second=None,
        )
        for name, values in sizes.items()
        for size in values
    ]

    check_bandwidth(points, 10)
    with pytest.raises(UnavailableError, match=r"1,000,000,000 bytes reaches 10 GB/s, .* 10\.5; .*NCCL_DEBUG"):
        check_bandwidth(points, 10.5)


@pytest.mark.parametrize(
    ("file", "text"), [("all_reduce_perf.log", LOG), ("a.txt", f"# Collective test starting: all_reduce_perf\n{LOG}")]
)
def test_a_log_of_nccl_tests_is_read(file: str, text: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(text)

    timings = nccl_tests.read_log(str(tmp_path / file))

    assert list(timings) == [("all-reduce", 1024), ("all-reduce", 134217728)]
    large = timings["all-reduce", 134217728]
    assert (large.count, large.seconds) == (33554432, pytest.approx(1073.7e-6))
    assert (large.algorithm, large.bus) == (pytest.approx(125e9), pytest.approx(218.75e9))


def test_logs_of_several_programs_lie_in_one_file(tmp_path: Path) -> None:
    log = tmp_path / "all.txt"
    log.write_text(f"+ ./build/all_gather_perf -b 8\n{LOG}+ ./build/sendrecv_perf -b 8\n{LOG}")

    assert {name for name, _ in nccl_tests.read_log(str(log))} == {"all-gather", "send-receive"}


def test_our_table_is_read_as_theirs_is_and_stands_beside_it(tmp_path: Path) -> None:
    theirs = describe_timing("reduce-scatter", size=1024, seconds=1e-4, count=2)
    ours = describe_timing("reduce-scatter", size=1024, seconds=2e-4, count=2)
    log = tmp_path / "ours.txt"
    log.write_text(f"{nccl_tests.header('reduce-scatter', has_reference=False)}\n{nccl_tests.row(theirs, {})}\n")

    reference = nccl_tests.read_log(str(log))
    cells = nccl_tests.row(ours, reference).split()

    assert cells[:5] == ["1024", "128", "float", "sum", "-1"]
    assert cells[5:] == ["200.00", "0.005", "0.003", "100.00", "0.010", "0.005", "0.51"]


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "No such file"), ("nothing", "has no row of nccl-tests' table"), (LOG, "nothing says of which collective")],
)
def test_a_file_that_is_no_log_of_nccl_tests_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "log").write_text(text)

    with pytest.raises(UserError, match=message):
        nccl_tests.read_log(str(tmp_path / "log"))
