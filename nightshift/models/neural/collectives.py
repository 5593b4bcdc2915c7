"""How fast do processes exchange tensors? Bandwidth of the collectives by message size, as nccl-tests measures it.

    torchrun --standalone --nproc-per-node 2 -m nightshift.models.neural.collectives --device cpu

On several nodes it takes torchrun's flags; on one machine `nightshift perf collectives` is shorter. gloo on the CPU,
NCCL on GPUs. The table has nccl-tests' columns, and theirs beside with `--beside`. A size S is that of the whole buffer
of a process, t the time of a call. The algorithm's bandwidth is S / t; the bus's counts what a process has to send at
least, so it can be held against the link's, whatever the number of processes
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from nightshift.contracts.listings import CollectivePoint, CollectiveReport
from nightshift.models.neural import devices, nccl_tests, processes
from nightshift.models.neural.nccl_tests import CollectiveTiming, Key
from nightshift.runtime import step
from nightshift.runtime.errors import UnavailableError, UserError

SIZES = [1 << power for power in range(10, 27, 2)]  # 1 KiB to 64 MiB
ITEM = torch.float32.itemsize
FIRST = 5  # calls that do not count
SECONDS = 0.2  # seconds of a measurement
MOST = 200  # calls

# PyTorch 2.13's names, and those that 2.10 of the GPU image knows
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(frozen=True)
class Buffers:
    """What a process sends and receives, float32: `whole` and `other` of one size, `part` its share of that."""

    whole: Tensor
    other: Tensor
    part: Tensor


def scale_by_peers(share: float) -> Callable[[int], float]:
    """Return how much of a buffer each of n processes has to send at least, where that is so many times (n - 1) / n."""
    return lambda count: share * (count - 1) / count


def send_on(buffers: Buffers) -> None:
    """Send a buffer to the next process, and receive that of the one before."""
    rank, count = dist.get_rank(), dist.get_world_size()
    sending = dist.P2POp(dist.isend, buffers.whole, (rank + 1) % count)
    receiving = dist.P2POp(dist.irecv, buffers.other, (rank - 1) % count)
    for work in dist.batch_isend_irecv([sending, receiving]):
        work.wait()


@dataclass(frozen=True)
class CollectiveOperation:
    """What processes do together.

    Attributes:
        share: what a process has to send of its buffer, by the number of processes.
        call: does it.
        is_whole: whether a call counts the elements of the whole buffer, else those of a process's part.
    """

    share: Callable[[int], float]
    call: Callable[[Buffers], object]
    is_whole: bool = False


COLLECTIVES = {
    "all-reduce": CollectiveOperation(scale_by_peers(2), lambda buffers: dist.all_reduce(buffers.whole), is_whole=True),
    "all-gather": CollectiveOperation(scale_by_peers(1), lambda buffers: all_gather(buffers.whole, buffers.part)),
    "reduce-scatter": CollectiveOperation(
        scale_by_peers(1), lambda buffers: reduce_scatter(buffers.part, buffers.whole)
    ),
    "all-to-all": CollectiveOperation(
        scale_by_peers(1), lambda buffers: dist.all_to_all_single(buffers.other, buffers.whole)
    ),
    "send-receive": CollectiveOperation(lambda _: 1.0, send_on, is_whole=True),
}


def describe_timing(name: str, size: int, seconds: float, count: int) -> CollectiveTiming:
    """Return the bandwidths of a collective.

    Args:
        name: of the collective.
        size: of the whole buffer, bytes.
        seconds: of a call, in the mean of all processes.
        count: how many processes.
    """
    collective, elements, algorithm = COLLECTIVES[name], size // ITEM, size / seconds
    return CollectiveTiming(
        collective=name,
        size=size,
        count=elements if collective.is_whole else elements // count,
        seconds=seconds,
        algorithm=algorithm,
        bus=algorithm * collective.share(count),
    )


def measure_collectives(sizes: list[int], device: torch.device) -> Iterator[CollectiveTiming]:
    """Measure every collective with every size, in bytes, rounded up to what the processes can share."""
    count = dist.get_world_size()
    for name, collective in COLLECTIVES.items():
        for size in sizes:
            items = -(-size // (ITEM * count)) * count
            # zeros stay what they are, however often they are added up
            whole, other = torch.zeros(items, device=device), torch.zeros(items, device=device)
            buffers = Buffers(whole, other, torch.zeros(items // count, device=device))
            yield describe_timing(name, items * ITEM, _seconds(collective.call, buffers), count)


def _seconds(call: Callable[[Buffers], object], buffers: Buffers) -> float:
    """Return the seconds of a call."""
    _time_calls(call, buffers, FIRST)
    once = _time_calls(call, buffers, FIRST)
    return _time_calls(call, buffers, min(MOST, max(FIRST, round(SECONDS / once))))


def _time_calls(call: Callable[[Buffers], object], buffers: Buffers, calls: int) -> float:
    _mean(0.0)  # all begin together
    started = time.perf_counter()
    for _ in range(calls):
        call(buffers)
    devices.wait(buffers.whole.device)
    return _mean((time.perf_counter() - started) / calls)


def _mean(value: float) -> float:
    """Return the mean of the processes' values, the same in all of them."""
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def check_bandwidth(points: Sequence[CollectivePoint], least: float) -> None:
    """Check the largest all-reduce: a fabric that NCCL does not use costs bandwidth, and no error.

    Args:
        points: what was measured.
        least: bus bandwidth in GB/s.

    Raises:
        UnavailableError: when it is slower.
    """
    largest = max((point for point in points if point.collective == "all-reduce"), key=lambda point: point.size_bytes)
    bandwidth = largest.bus_bytes_per_second / 1e9
    if bandwidth < least:
        raise UnavailableError(
            f"the all-reduce of {largest.size_bytes:,} bytes reaches {bandwidth:.3g} GB/s, and --at-least is {least:g};"
            " run it with NCCL_DEBUG=INFO: lines with NET/ say which network NCCL uses"
        )


def main() -> None:
    """Measure, and print a line each in the first process."""
    parser = argparse.ArgumentParser(
        prog="python -m nightshift.models.neural.collectives", description=measure_collectives.__doc__
    )
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        required=True,
        help="device whose tensors are exchanged, cpu (gloo) or cuda (NCCL)",
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="tensor sizes in bytes (default: 1 KiB to 64 MiB)"
    )
    parser.add_argument(
        "--at-least",
        type=float,
        default=0.0,
        help="bus bandwidth in GB/s that the largest all-reduce has to reach (default: 0)",
    )
    parser.add_argument(
        "--beside", help="file with the output of nccl-tests, whose figures are printed beside (default: none)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON document, see docs/schemas/collective_report.json"
    )
    args = parser.parse_args()
    try:
        device = devices.torch_device(args.device)
        reference = nccl_tests.read_log(args.beside) if args.beside else {}
        with processes.join_processes(device):
            report = _report(args, device, reference)
        if step.is_first():
            check_bandwidth(report.points, args.at_least)
    except (UserError, UnavailableError) as error:
        print(f"collectives: {error}", file=sys.stderr)
        sys.exit(step.USER_ERROR if isinstance(error, UserError) else 1)


def _report(
    args: argparse.Namespace, device: torch.device, reference: Mapping[Key, CollectiveTiming]
) -> CollectiveReport:
    """Measure, and print in the first process."""
    if not dist.is_initialized():
        raise UserError("one process exchanges nothing; start two or more, as `nightshift perf collectives` does")
    if min(args.sizes) < 1:
        raise UserError(f"--sizes are {args.sizes}; give bytes above 0")
    backend, count = "NCCL" if device.type == "cuda" else "gloo", dist.get_world_size()
    report = CollectiveReport(backend=backend, processes=count, points=[])
    _say("" if args.json else f"# {count} processes, {backend}")
    for timing in measure_collectives(args.sizes, device):
        if not args.json:
            _say_row(timing, report, reference)
        report.points.append(_point(timing, reference.get((timing.collective, timing.size))))
    _say(report.model_dump_json(indent=2) if args.json else "")
    return report


def _say_row(timing: CollectiveTiming, report: CollectiveReport, reference: Mapping[Key, CollectiveTiming]) -> None:
    if not report.points or report.points[-1].collective != timing.collective:
        _say(nccl_tests.header(timing.collective, bool(reference)))
    _say(nccl_tests.row(timing, reference))


def _say(text: str) -> None:
    if text and step.is_first():
        print(text, flush=True)


def _point(timing: CollectiveTiming, theirs: CollectiveTiming | None) -> CollectivePoint:
    return CollectivePoint(
        collective=timing.collective,
        size_bytes=timing.size,
        count=timing.count,
        seconds=timing.seconds,
        algorithm_bytes_per_second=timing.algorithm,
        bus_bytes_per_second=timing.bus,
        reference_seconds=theirs.seconds if theirs else None,
        reference_bus_bytes_per_second=theirs.bus if theirs else None,
    )


if __name__ == "__main__":
    main()
