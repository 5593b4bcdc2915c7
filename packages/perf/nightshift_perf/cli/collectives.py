"""The command that measures how fast processes exchange tensors."""

import argparse
import os
import subprocess
import sys

from nightshift.runtime.errors import UserError
from nightshift.runtime.interpreter import isolate
from nightshift_perf.tuning import launcher
from pipelines.cli import options


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "collectives", collectives.__doc__)
    command.add_argument(
        "--processes",
        type=int,
        default=2,
        help="number of processes on this machine, each with its own GPU on cuda (default: 2)",
    )
    command.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        default="cpu",
        help="exchange by gloo on the CPU or by NCCL on GPUs (default: cpu)",
    )
    command.add_argument(
        "--sizes", type=int, nargs="+", default=[], help="tensor sizes in bytes (default: 1 KiB to 64 MiB)"
    )
    command.add_argument(
        "--at-least",
        type=float,
        default=0.0,
        help="fail if the largest all-reduce stays below this bus bandwidth in GB/s (default: 0)",
    )
    command.add_argument(
        "--beside", help="file with the output of nccl-tests, whose figures are printed beside (default: none)"
    )
    options.add_json(command, "collective_report")
    command.set_defaults(command=collectives)


def collectives(args: argparse.Namespace) -> int:
    """Measure collectives and messages by tensor size, in nccl-tests' table and beside its figures."""
    if args.processes < 2:
        raise UserError(f"--processes is {args.processes}; two or more exchange something")
    sizes = ["--sizes", *map(str, args.sizes)] if args.sizes else []
    beside = ["--beside", args.beside] if args.beside else []
    as_json = ["--json"] if args.json else []
    flags = ["--device", args.device, "--at-least", str(args.at_least), *sizes, *beside, *as_json]
    argv = [*launcher(args.processes), "nightshift.models.neural.collectives", *flags]
    # torchrun sets it too, with a warning
    environment = isolate({"OMP_NUM_THREADS": "1", **os.environ})
    return subprocess.run([sys.executable, "-m", *argv], env=environment, check=False).returncode
