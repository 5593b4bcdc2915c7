"""Profiling without a run: traces, or a command, in; `profile.json`, its section and a page out."""

import shlex
from argparse import Namespace

from components.profiling.traces import analysis, read, section
from components.profiling.traces.analysis import Known
from components.profiling.traces.trace import Trace
from components.reporting import report
from nightshift import step, storage
from nightshift.contracts import profile
from nightshift.contracts.profile import TraceProfile
from nightshift.contracts.section import write_section
from nightshift.errors import UserError

PAGE, SECTION = "report.html", "profile"  # the latter is profile.section.json
EPILOG = """Example: python -m components.profiling --trace trace.json.gz --output profile
With --config this is the pipeline's step instead, which measures the training of the selected model:
python -m components.profiling --config '{}' --help"""


def is_asked(arguments: list[str]) -> bool:
    """Return whether a command line is not that of the pipeline's step, which has a config."""
    return not any(each.split("=")[0] in ("--config", "--executor-input") for each in arguments)


def parser() -> step.Parser:
    """Return the flags for people."""
    flags = step.Parser(
        "profiling", "Say where the time of a training on GPUs goes, and what would win most of it back."
    )
    flags.epilog = EPILOG
    flags.add_argument("--trace", nargs="+", action="extend", default=[], metavar="FILE_OR_URI",
                       help="of torch.profiler (.json, .json.gz), Nsight Systems (.sqlite) or Nsight Compute (.csv); "
                       "several are several ranks or several numbers of GPUs")  # fmt: skip
    flags.add_argument(
        "--command", help="a Python program to run under torch.profiler instead, as 'train.py --epochs 1'"
    )
    flags.add_argument("--output", required=True, metavar="DIR", help="folder or URI for profile.json and report.html")
    flags.add_argument(
        "--flops-per-step", help="floating-point operations of a step on one GPU (FlopCounterMode), for MFU"
    )
    flags.add_argument(
        "--precision", default="fp32", help="of the matrix products: fp32 (default), tf32, fp16, bf16, fp8"
    )
    flags.add_argument(
        "--gpu",
        default="",
        help="where the trace does not say it: a row of nightshift/hardware.yaml, such as h100-80gb",
    )
    return flags


def body(args: Namespace) -> dict[str, float | None]:
    """Read, analyze, write, and say what to do next."""
    uris = [*args.trace, *_recorded(args)]
    if not uris:
        raise UserError("nothing to look at; give --trace FILE_OR_URI, or --command 'train.py'")
    flops = _number(args.flops_per_step)
    traces, counted = [], []
    for uri in uris:
        step.log.info("reading %s", uri)
        found = read.read(uri)
        if isinstance(found, Trace):
            traces.append(found)
        else:
            counted += found
    if not traces:
        raise UserError(f"{', '.join(uris)}: metrics of kernels alone do not say where the time goes; add a --trace "
                        "of torch.profiler or Nsight Systems")  # fmt: skip
    profiled = analysis.analyze(traces, Known(flops, args.precision, args.gpu, counted))
    write(profiled, args.output)
    for line in told(profiled, args.output):
        step.log.info("%s", line)
    return {"step_ms": profiled.step_ms, "gpu_busy_pct": profiled.gpu_busy_pct}


def write(found: TraceProfile, folder: str) -> None:
    """Write the page and the section, and last `profile.json`, by which the folder is complete."""
    shown = section.build(found)
    storage.write_bytes(storage.join(folder, PAGE), report.alone(shown, folder).encode())
    write_section(storage.join(folder, SECTION), shown)
    found.write(storage.join(folder, profile.FILE))


def told(found: TraceProfile, folder: str) -> list[str]:
    """Return what a person reads in the terminal."""
    busy = "no GPU" if found.gpu_busy_pct is None else f"GPU busy {found.gpu_busy_pct:.1f} %"
    steps = "no step is marked" if found.step_ms is None else f"{found.step_ms:.1f} ms a step"
    costs = ["" if each.won_ms is None else f" ({each.won_ms:.1f} ms a step)" for each in found.diagnosis]
    ranked = [
        f"{number}. {each.title}{cost}: {each.evidence} {each.fix}"
        for number, (each, cost) in enumerate(zip(found.diagnosis, costs, strict=True), 1)
    ]
    return [
        f"{steps}, {busy}, data wait {found.data_wait_pct:.1f} %, exposed communication "
        f"{found.exposed_communication_pct:.1f} %",
        *ranked,
        f"Report: {storage.join(folder, PAGE)}",
        "Next: fix the first, record again, and compare: "
        f"python -m components.profiling --trace NEW_TRACE --output {shlex.quote(folder.rstrip('/') + '-after')}",
    ]


def _recorded(args: Namespace) -> list[str]:
    if not args.command:
        return []
    from components.profiling import live

    trace = storage.join(args.output, profile.TRACE)
    step.log.info("recording %s", args.command)
    storage.write_bytes(trace, live.record(args.command))
    return [trace]


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise UserError(f"--flops-per-step {text}: give a number above 0, such as 4.1e12")
    return found
