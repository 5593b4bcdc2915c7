"""The command that says where the time of a training on GPUs goes, of traces or of a program that it starts."""

import argparse
import shlex
from contextlib import redirect_stdout

from components.reporting import report
from nightshift import storage
from nightshift.contracts import profile as contract
from nightshift.contracts.profile import TraceProfile
from nightshift.contracts.section import write_section
from nightshift.runtime.errors import UserError
from pipelines.cli import options

PAGE, SECTION = "report.html", "profile"  # the latter is profile.section.json


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
        "--output", required=True, metavar="DIR", help="folder or URI to write profile.json and report.html to"
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
    options.add_json(command, "trace_profile")
    command.set_defaults(command=profile)


def profile(args: argparse.Namespace) -> int:
    """Show where the time of a GPU training goes, and which fixes save most of it."""
    from nightshift_perf.traces import analysis, read  # NumPy, which Airflow's environment lacks
    from nightshift_perf.traces.analysis import Known
    from nightshift_perf.traces.trace import Trace

    uris = [*args.trace, *_record_trace(args)]
    if not uris:
        raise UserError("nothing to look at; give --trace FILE_OR_URI, or --command 'train.py'")
    flops = _parse_number(args.flops_per_step)
    traces, counters = [], []
    for uri in uris:
        options.report(args, f"reading {uri}")
        recording = read.read(uri)
        if isinstance(recording, Trace):
            traces.append(recording)
        else:
            counters += recording
    if not traces:
        raise UserError(f"{', '.join(uris)}: metrics of kernels alone do not say where the time goes; add a --trace "
                        "of torch.profiler or Nsight Systems")  # fmt: skip
    profiled = analysis.analyze(traces, Known(flops, args.precision, args.gpu, counters))
    write(profiled, args.output)
    if args.json:
        return options.print_document(profiled)
    for line in summary(profiled, args.output):
        options.say(line)
    return 0


def write(profiled: TraceProfile, folder: str) -> None:
    """Write the page and the section, and last `profile.json`, by which the folder is complete."""
    from nightshift_perf.traces import section

    shown = section.build(profiled)
    storage.write_bytes(storage.join(folder, PAGE), report.alone(shown, folder).encode())
    write_section(storage.join(folder, SECTION), shown)
    profiled.write(storage.join(folder, contract.FILE))


def summary(profile: TraceProfile, folder: str) -> list[str]:
    """Return the lines for the terminal."""
    busy = "no GPU" if profile.gpu_busy_pct is None else f"GPU busy {profile.gpu_busy_pct:.1f} %"
    steps = "no step is marked" if profile.step_ms is None else f"{profile.step_ms:.1f} ms a step"
    unit = "ms" if profile.step_ms is None else "ms a step"
    costs = ["" if finding.won_ms is None else f" ({finding.won_ms:.1f} {unit})" for finding in profile.diagnosis]
    ranked = [
        f"{number}. {finding.title}{cost}: {finding.evidence} {finding.fix}"
        for number, (finding, cost) in enumerate(zip(profile.diagnosis, costs, strict=True), 1)
    ]
    return [
        f"{steps}, {busy}, data wait {profile.data_wait_pct:.1f} %, exposed communication "
        f"{profile.exposed_communication_pct:.1f} %",
        *ranked,
        f"Report: {storage.join(folder, PAGE)}",
        "Next: fix the first, record again, and compare: "
        f"nightshift perf profile --trace NEW_TRACE --output {shlex.quote(folder.rstrip('/') + '-after')}",
    ]


def _record_trace(args: argparse.Namespace) -> list[str]:
    if not args.program:
        return []
    from nightshift_perf import live

    trace = storage.join(args.output, contract.TRACE)
    options.report(args, f"recording {args.program}")
    with redirect_stdout(options.progress_stream(args)):
        recording = live.record(args.program)
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
