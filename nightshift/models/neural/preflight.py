r"""Are the machines of a training alike, and does each do what the others do? A minute before days of training.

    python -m nightshift.models.neural --standalone --nproc-per-node 2 \
        -m nightshift.models.neural.preflight --device cpu --folder checkpoints

On several machines the flags are the launcher's, as for the training itself. The first process prints a line for each,
and what is wrong. Exit code 2: something is.
"""

import argparse
import os
import platform
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from nightshift import storage
from nightshift.models.neural import devices, processes
from nightshift.runtime import step
from nightshift.runtime.errors import UnavailableError, UserError

SIZE = {"cpu": 1024, "cuda": 8192}  # edge of the matrices that are multiplied
PRODUCTS, MESSAGES = 10, 5
BYTES = 16 << 20  # bytes of a message, and of a file
PREFIXES = ("NCCL_", "FI_", "GLOO_", "TORCH_NCCL_")  # prefixes of variables that decide how processes exchange tensors
SKEW = 1.0  # second: of clocks, by which logs and checkpoints are ordered
HEADER = f"{'rank':>4} {'host':24}{'TFLOP/s':>10}{'link GB/s':>11}{'storage MB/s':>14}{'clock ms':>10}"


@dataclass(frozen=True)
class RankReport:
    """What a process has seen of its machine.

    Attributes:
        rank: its number.
        host: its machine.
        versions: library or driver -> version.
        variables: variables of its environment that decide how tensors are exchanged.
        flops: of matrix products, FLOP/s.
        link: bytes/s to the process before it; None for the first one.
        storage: bytes/s, written and read again by the process after it; a sentence where that fails.
        skew: seconds by which its clock is ahead of the first process's.
    """

    rank: int
    host: str
    versions: Mapping[str, str]
    variables: Mapping[str, str]
    flops: float
    link: float | None
    storage: float | str
    skew: float

    def __str__(self) -> str:
        link = "" if self.link is None else f"{self.link / 1e9:.2f}"
        stored = "failed" if isinstance(self.storage, str) else f"{self.storage / 1e6:.0f}"
        figures = f"{self.flops / 1e12:>10.2f}{link:>11}{stored:>14}{1e3 * self.skew:>10.1f}"
        return f"{self.rank:>4} {self.host[:23]:24}{figures}"


def find_faults(reports: Sequence[RankReport], tolerance: float, bandwidth: float = 0.0) -> Iterator[str]:
    """Yield what is wrong, a sentence each, with the rank and its machine.

    Args:
        reports: of all processes, by rank.
        tolerance: share by which one may be slower than the median.
        bandwidth: bytes/s that each link has to have.
    """
    first = reports[0]
    slowest = (1 - tolerance) * median(report.flops for report in reports)
    links = [report.link for report in reports if report.link is not None]
    narrowest = max(bandwidth, (1 - tolerance) * median(links)) if links else 0.0
    for report in reports:
        name = f"rank {report.rank} on {report.host}"
        yield from _differences(name, "has", first.versions, report.versions)
        yield from _differences(name, "sets", first.variables, report.variables)
        if report.flops < slowest:
            yield f"{name} multiplies at {report.flops / 1e12:.2f} TFLOP/s, below {slowest / 1e12:.2f}; replace it"
        if report.link is not None and report.link < narrowest:
            yield (
                f"{name} gets {report.link / 1e9:.2f} GB/s from rank {report.rank - 1}, below {narrowest / 1e9:.2f}; "
                "check its network, and what NCCL_DEBUG=INFO says of it"
            )
        if isinstance(report.storage, str):
            yield f"{name} cannot share files: {report.storage}; give all machines the same --folder"
        if abs(report.skew) > SKEW:
            yield f"{name} has a clock that is {report.skew:+.1f} s off; start chrony or ntpd on it"


def _differences(name: str, verb: str, first: Mapping[str, str], own: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*first, *own}):
        theirs, ours = first.get(key, "nothing"), own.get(key, "nothing")
        if ours != theirs:
            yield f"{name} {verb} {key} {ours}, and rank 0 {theirs}; use one image and one environment for all"


def examine(device: torch.device, folder: str) -> RankReport:
    """Return what this process sees of its machine; all processes call it at once."""
    return RankReport(
        rank=dist.get_rank(),
        host=socket.gethostname(),
        versions=_list_versions(device),
        variables={name: value for name, value in os.environ.items() if name.startswith(PREFIXES)},
        flops=_measure_products(device),
        link=_measure_link(device),
        storage=_measure_storage(folder),
        skew=_measure_skew(),
    )


def _list_versions(device: torch.device) -> dict[str, str]:
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    if device.type == "cuda":
        nccl = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
        versions |= {"cuda": str(torch.version.cuda), "nccl": nccl, "gpu": torch.cuda.get_device_name(device)}
    return versions


def _measure_products(device: torch.device) -> float:
    size = SIZE[device.type]
    matrix = torch.ones(size, size, device=device, dtype=torch.bfloat16 if device.type == "cuda" else torch.float32)
    return 2 * size**3 / _time(lambda: matrix @ matrix, device, PRODUCTS)


def _measure_link(device: torch.device) -> float | None:
    """Send messages from each process to the next one, one pair after the other."""
    rank, message = dist.get_rank(), torch.zeros(BYTES // 4, device=device)
    bandwidth = None
    for receiver in range(1, dist.get_world_size()):
        dist.barrier()
        if rank == receiver - 1:
            _time(partial(dist.send, message, receiver), device, MESSAGES)
        elif rank == receiver:
            bandwidth = BYTES / _time(partial(dist.recv, message, receiver - 1), device, MESSAGES)
    return bandwidth


def _time(call: Callable[[], Any], device: torch.device, calls: int) -> float:
    """Return the seconds of a call; the first one does not count."""
    call()
    devices.wait(device)
    began = time.perf_counter()
    for _ in range(calls):
        call()
    devices.wait(device)
    return (time.perf_counter() - began) / calls


def _measure_storage(folder: str) -> float | str:
    """Write a file, read that of the process before; both are deleted by whoever has written them."""
    rank, count, names = dist.get_rank(), dist.get_world_size(), [secrets.token_hex(8)]
    dist.broadcast_object_list(names)  # the first process's name: nobody else has files of it
    own, other = (storage.join(folder, f"preflight-{names[0]}-{number}") for number in (rank, (rank - 1) % count))
    began = time.perf_counter()
    written = _try(lambda: storage.write_bytes(own, bytes(BYTES)))
    dist.barrier()
    read = _try(lambda: storage.read_bytes(other))
    seconds = time.perf_counter() - began
    dist.barrier()
    _try(lambda: storage.remove(own))
    return written or read or 2 * BYTES / seconds


def _try(call: Callable[[], object]) -> str:
    """Return why a call fails; empty when it does not."""
    try:
        call()
    except (UserError, UnavailableError, OSError) as error:
        return str(error)
    return ""


def _measure_skew() -> float:
    """Ask the first process for its clock, one after the other; half of the way is taken off."""
    rank, clock = dist.get_rank(), torch.zeros(1, dtype=torch.float64)
    skew = 0.0
    for peer in range(1, dist.get_world_size()):
        if rank == peer:
            began = time.time()
            dist.send(clock, 0)
            dist.recv(clock, 0)
            skew = (began + time.time()) / 2 - clock.item()
        elif rank == 0:
            dist.recv(clock, peer)
            dist.send(torch.tensor([time.time()], dtype=torch.float64), peer)
    return skew


def main() -> None:
    """Examine all machines; the first process prints what they are, and what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m nightshift.models.neural.preflight", description=__doc__)
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], required=True, help="what trains, cpu (gloo) or cuda (NCCL)"
    )
    parser.add_argument("--folder", required=True, help="folder or URI of the checkpoints, which all machines share")
    parser.add_argument(
        "--tolerance", type=float, default=0.2, help="share by which a machine may be slower (default: %(default)s)"
    )
    parser.add_argument("--bandwidth", type=float, default=0.0, help="GB/s that each link has to have (default: none)")
    args = parser.parse_args()
    try:
        sys.exit(_examine_all(args))
    except UserError as error:
        print(f"preflight: {error}", file=sys.stderr)
        sys.exit(step.USER_ERROR)


def _examine_all(args: argparse.Namespace) -> int:
    device = devices.torch_device(args.device)
    with processes.join_processes(device):
        if not dist.is_initialized():
            raise UserError("one process has nobody to compare with; start two or more, see docs/guides/training.md")
        gathered: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, asdict(examine(device, args.folder)))
    reports = [RankReport(**report) for report in gathered]
    faults = list(find_faults(reports, args.tolerance, 1e9 * args.bandwidth))
    if step.is_first():
        print("\n".join([HEADER, *map(str, reports), *(faults or ["nothing is wrong"])]), flush=True)
    return step.USER_ERROR if faults else 0


if __name__ == "__main__":
    main()
