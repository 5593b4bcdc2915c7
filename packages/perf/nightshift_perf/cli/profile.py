"""The command that says where the time of a training on GPUs goes, of traces or of a program that it starts."""

import argparse
import shlex
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from components.reporting import report
from nightshift import storage
from nightshift.contracts import profile as contract
from nightshift.contracts.profile import TraceProfile
from nightshift.contracts.section import Section, write_section
from nightshift.runtime.errors import UserError
from nightshift_perf.contracts import TimeChange, TraceChanges
from pipelines.cli import options

if TYPE_CHECKING:
    from nightshift_perf.traces.ceiling import KernelCounters
    from nightshift_perf.traces.trace import Trace

PAGE = "report.html"
SECTION, CHANGES = "profile", "changes"  # profile.section.json, changes.section.json
SIDES = ("before", "after")
SHOWN = 5  # lines of a kind

COSTLIEST, NAME_LENGTH = 3, 60  # kernels on the terminal, and characters of the name of one


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "profile", profile.__doc__)
    command.add_argument("--trace", nargs="+", action="extend", default=[], metavar="FILE_OR_URI",
                         help="traces of torch.profiler (.json, .json.gz), Nsight Systems (.sqlite) or Nsight Compute "
                         "(.csv); give one per rank, or one per number of GPUs")  # fmt: skip
    command.add_argument(
        "--command", dest="program", help="Python program to run under torch.profiler, such as 'train.py --epochs 1'"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="argument of each DataLoader of --command, such as num_workers=2, to try advice without changing the "
        "program; repeatable",
    )
    for side in SIDES:
        command.add_argument(
            f"--{side}",
            nargs="+",
            default=[],
            metavar="FILE_OR_URI",
            help=f"traces of the training {side} a change, to compare step by step (default: none)",
        )
    command.add_argument(
        "--output",
        required=True,
        metavar="DIR",
        help="folder or URI to write profile.json, or changes.json of a comparison, and report.html to",
    )
    command.add_argument(
        "--flops-per-step", help="floating-point operations of a step on one GPU (FlopCounterMode), for MFU"
    )
    command.add_argument(
        "--precision", default="fp32", help="precision of the matrix products: fp32 (default), tf32, fp16, bf16, fp8"
    )
    command.add_argument(
        "--gpu",
        default="",
        help="GPU of the trace, such as h100-80gb, if the trace does not name it",
    )
    options.add_json(command, "trace_profile", "trace_changes")
    command.set_defaults(command=profile)


def profile(args: argparse.Namespace) -> int:
    """Show where the time of a training goes and which fixes save most of it, or what became faster by a change."""
    from nightshift_perf.traces import analysis  # NumPy, which Airflow's environment lacks
    from nightshift_perf.traces.analysis import Known

    flops = _parse_number(args.flops_per_step)
    if args.before or args.after:
        return _compare(args, flops)
    uris = [*args.trace, *_record_trace(args)]
    if not uris:
        raise UserError("nothing to look at; give --trace FILE_OR_URI, --command 'train.py', or --before and --after")
    traces, counters = _read(args, uris)
    profiled = analysis.analyze(traces, Known(flops, args.precision, args.gpu, counters))
    write(profiled, args.output)
    if args.json:
        return options.print_document(profiled)
    for line in summary(profiled, args.output):
        options.say(line)
    return 0


def _compare(args: argparse.Namespace, flops: float | None) -> int:
    """Show what became faster from the traces before to those after."""
    from nightshift_perf.traces import analysis, changes, changes_section
    from nightshift_perf.traces.analysis import Known

    if not (args.before and args.after) or args.trace or args.program:
        raise UserError("--before and --after belong together, without --trace and --command; give both, or neither")
    before, after = (analysis.measure(_read(args, uris)[0]) for uris in (args.before, args.after))
    compared = changes.compare(before, after, Known(flops, args.precision, args.gpu))
    _write_section(changes_section.build(compared), args.output, CHANGES)
    compared.write(storage.join(args.output, f"{CHANGES}.json"))
    if args.json:
        return options.print_document(compared)
    for line in compare_lines(compared, args.output):
        options.say(line)
    return 0


def _read(args: argparse.Namespace, uris: Sequence[str]) -> tuple[list["Trace"], list["KernelCounters"]]:
    """Read traces of one training, and metrics of kernels beside them.

    Raises:
        UserError: when there is no trace among them, or nothing tells that they are of one training.
    """
    from nightshift_perf.traces import ranks, read
    from nightshift_perf.traces.trace import Trace

    traces, counters = [], []
    for uri in uris:
        options.report(args, f"reading {uri}")
        recording = read.read(uri)
        if isinstance(recording, Trace):
            traces.append(recording)
        else:
            counters += recording
    if not traces:
        raise UserError(f"{', '.join(uris)}: metrics of kernels alone do not say where the time goes; add a trace "
                        "of torch.profiler or Nsight Systems")  # fmt: skip
    ranks.check_related([trace.origin for trace in traces])
    return traces, counters


def write(profiled: TraceProfile, folder: str) -> None:
    """Write the page and the section, and last `profile.json`, by which the folder is complete."""
    from nightshift_perf.traces import section

    _write_section(section.build(profiled), folder, SECTION)
    profiled.write(storage.join(folder, contract.FILE))


def _write_section(shown: Section, folder: str, name: str) -> None:
    storage.write_bytes(storage.join(folder, PAGE), report.alone(shown, folder).encode())
    write_section(storage.join(folder, name), shown)


def compare_lines(changes: TraceChanges, folder: str) -> list[str]:
    """Return a comparison's lines for the terminal."""
    from nightshift_perf.traces import changes_section

    def times(title: str, listed: Sequence[TimeChange]) -> list[str]:
        lines = [
            f"  {change.name}: {change.before_ms:,.4g} -> {change.after_ms:,.4g} ms, "
            f"{changes_section.describe_saving(change)}"
            for change in listed[:SHOWN]
        ]
        return [title, *lines] if lines else []

    return [
        changes_section.headline(changes),
        *times("by part of the step:", changes.parts),
        *times("by operation:", changes.operations),
        *map(changes_section.describe_finding, changes.findings),
        *changes.caveats,
        f"Report: {storage.join(folder, PAGE)}",
    ]


def summary(profile: TraceProfile, folder: str) -> list[str]:
    """Return the lines for the terminal."""
    from nightshift_perf.traces import section

    busy = "no GPU" if profile.gpu_busy_pct is None else f"GPU busy {profile.gpu_busy_pct:.1f} %"
    steps = "no step is marked" if profile.step_ms is None else f"{profile.step_ms:.1f} ms a step"
    unit = "ms" if profile.step_ms is None else "ms a step"
    costs = ["" if finding.won_ms is None else f" ({finding.won_ms:.1f} {unit})" for finding in profile.diagnosis]
    ranked = [
        f"{number}. {finding.title}{cost}: {section.explain(finding)}"
        for number, (finding, cost) in enumerate(zip(profile.diagnosis, costs, strict=True), 1)
    ]
    return [
        f"{steps}, {busy}, data wait {profile.data_wait_pct:.1f} %, exposed communication "
        f"{profile.exposed_communication_pct:.1f} %",
        *ranked,
        *_name_costliest(profile),
        f"Report: {storage.join(folder, PAGE)}",
        "Next: fix the first, record again, and compare: "
        f"nightshift perf profile --before {' '.join(map(shlex.quote, profile.sources))} --after NEW_TRACE "
        f"--output {shlex.quote(folder.rstrip('/') + '-after')}",
    ]


def _name_costliest(profile: TraceProfile) -> list[str]:
    """Return a line with the kernels, or operations of the host without a GPU, that take the most time."""
    shares = [(kernel.name, kernel.pct) for kernel in profile.top_kernels]
    shares = shares or [(operation.name, 100 * operation.share) for operation in profile.top_operations]
    names = [f"{name[:NAME_LENGTH]} {pct:.1f} %" for name, pct in shares[:COSTLIEST]]
    return [f"Most time: {', '.join(names)}"] if names else []


def _record_trace(args: argparse.Namespace) -> list[str]:
    from nightshift_perf import live

    settings = live.parse_settings(args.set)
    if settings and not args.program:
        raise UserError("--set changes the program that --command runs; give --command 'train.py', or leave it out")
    if not args.program:
        return []
    trace = storage.join(args.output, contract.TRACE)
    options.report(args, f"recording {args.program}")
    with redirect_stdout(options.progress_stream(args)):
        recording = live.record(args.program, settings)
    storage.write_bytes(trace, recording)
    return [trace]


def _parse_number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UserError(f"--flops-per-step {text}: give a number above 0, such as 4.1e12")
    return number
