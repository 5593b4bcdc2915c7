"""The command that measures how a network's training scales."""

import argparse
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from nightshift.config import parse
from nightshift.contracts.verdict import Decision
from nightshift.runtime.errors import UserError
from nightshift_perf import bubbles, limits, replicas, tuning
from nightshift_perf.cli.tune import choose_network, find_network, width
from nightshift_perf.contracts import ScalingFinding, ScalingReport, ScalingRun
from nightshift_perf.replicas import FAULTS, RunRows, ScalingCurve, ScalingMeasurement, ScalingSpec
from nightshift_perf.tuning import Search, TuningSetting, Variant, VariantProcess
from pipelines import configs, records
from pipelines.cli import options, plans

FEATURES = Path("features", "features")  # in a run's folder: the step, its artifact
PARTS = ("computing", "loading", "bubble", "waiting", "sharing", "exchange")
HEADINGS = ("processes", "replicas", "rows/s", "efficiency", "step ms", *PARTS)


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "scale", scale.__doc__)
    command.add_argument("--config", required=True, help="use case, by its name in pipelines/configs/ or a YAML file")
    command.add_argument("--candidate", help="name of the network in the config (default: the only one)")
    command.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="device to train on (default: cpu)")
    command.add_argument(
        "--processes",
        type=int,
        nargs="+",
        help="numbers of processes to measure, multiples of the layout's; 1 has the whole network (default: 1, those "
        "of task.trainer's layout, and twice as many)",
    )
    command.add_argument(
        "--rows",
        type=int,
        help="rows per process and step (default: the config's batch_size, shared by the processes of its layout)",
    )
    command.add_argument(
        "--inputs", type=int, help="number of inputs per row of a table (default: the config's, one for each category)"
    )
    command.add_argument(
        "--run", help="id of a run, or `latest`: train on its rows, as its training reads them (default: random rows)"
    )
    options.add_workspace(command)
    command.add_argument(
        "--check", action="store_true", help="measure what each suggested setting gains, beside the config's, in turn"
    )
    command.add_argument(
        "--inject-fault", choices=FAULTS, default="", help="slow the training down to check the diagnosis"
    )
    plans.add_plan(command)
    options.add_json(command, "scaling_report")
    command.set_defaults(command=scale)


def scale(args: argparse.Namespace) -> int:
    """Measure how a network's training scales over processes, and diagnose what slows it down."""
    if min([*(args.processes or ()), *(number for number in (args.rows, args.inputs) if number is not None), 1]) < 1:
        raise UserError("--rows, --inputs and --processes have to be above 0")
    config = parse(plans.planned_config(args).get("config") or configs.load(args.config))
    name, trainer = choose_network(config, args.candidate), config.task.trainer
    network, sharing = find_network(config, name, args.inputs), trainer.sharing
    job = ScalingSpec(
        candidate=name,
        network=network,
        trainer=trainer.model_dump(mode="json"),
        device=args.device,
        rows=args.rows or -(-network.parameters["batch_size"] // sharing),
        fault=args.inject_fault,
        run=find_rows(args) if args.run else None,
    )
    counts = sorted({1, *(args.processes or (sharing, trainer.processes or 2 * sharing))})
    tuning.check_processes(trainer, counts[1:])  # one has the whole network
    curve = measure_curve(args, job, counts)
    findings = limits.diagnose_scaling(curve) if len(curve.runs) > 1 else []
    if args.check:
        findings = [check_setting(job, curve.last, finding) for finding in findings]
    if args.json:
        return options.print_document(describe_scaling(curve, findings))
    for sentence in conclusion(args, curve, findings):
        options.report(args, sentence)
    return 0


def find_rows(args: argparse.Namespace) -> RunRows:
    """Return the rows of a run in the workspace, for the training that the config describes.

    Raises:
        UserError: when there is no such run, or it has no features.
    """
    folder = records.find_folder(args.run, options.state(args).runs)
    features = folder / FEATURES
    if not features.exists():
        raise UserError(f"--run {args.run}: {folder} has no {FEATURES}; name a run whose features step has ended")
    return RunRows(configs.load(args.config), str(features), records.read(folder).parameters["date"])


def measure_curve(args: argparse.Namespace, job: ScalingSpec, counts: list[int]) -> ScalingCurve:
    """Measure one number of processes after the other, with a line for each.

    Raises:
        UserError: when they cannot train so; if a single process cannot, the others are measured without it.
    """
    layout = job.layout.describe_layout()
    size = f"{job.rows} rows of {width(job.network.shape)} a process and step{f', of {args.run}' if job.run else ''}"
    options.report(args, f"{job.candidate} on {job.device}, {size}{layout and f'; {layout}'}")
    options.report(args, "".join(f"{heading:>11}" for heading in HEADINGS))
    curve = ScalingCurve(job)
    for processes in counts:
        try:
            curve.runs.append(replicas.measure_scaling(job, processes))
        except UserError as error:
            if processes > 1 or job.layout.sharing == 1 or len(counts) == 1:
                raise
            options.report(args, f"not measured: {error}")
        else:
            options.report(args, line(curve))
    return curve


def describe_scaling(curve: ScalingCurve, findings: list[ScalingFinding]) -> ScalingReport:
    """Return the measurements of a network and their findings as a document."""
    job = curve.job
    points = [
        ScalingRun(
            processes=len(run.processes),
            replicas=count_replicas(job, run),
            rows_per_second=run.speed,
            efficiency=run.efficiency(curve.first),
            step_seconds=run.step,
            **{f"{part}_seconds": seconds for part, seconds in parts(run).items()},
            bubble_share=run.bubble_share,
            bubble_formula=bubbles.formula(job.layout, job.pieces) if run.orders else None,
        )
        for run in curve.runs
    ]
    return ScalingReport(
        candidate=job.candidate,
        device=job.device,
        rows=job.rows,
        layout=job.layout.describe_layout(),
        points=points,
        findings=findings,
        caveats=list(caveats(curve)),
    )


def count_replicas(job: ScalingSpec, run: ScalingMeasurement) -> int:
    """Return how many copies of the network there are."""
    count = len(run.processes)
    return 1 if job.layout.zero or count == 1 else count // job.layout.sharing


def parts(run: ScalingMeasurement) -> dict[str, float]:
    """Return the seconds of each part of a step."""
    seconds = (run.computing, run.loading, run.bubble, run.waiting, run.sharing, run.exchanging)
    return dict(zip(PARTS, seconds, strict=True))


def line(curve: ScalingCurve) -> str:
    """Return the row of the last measurement; the last columns are milliseconds."""
    run = curve.last
    counts = [f"{len(run.processes)}", f"{count_replicas(curve.job, run)}"]
    speeds = [f"{run.speed:,.1f}", f"{run.efficiency(curve.first):.1%}"]
    milliseconds = [f"{1e3 * part:,.1f}" for part in (run.step, *parts(run).values())]
    return "".join(f"{cell:>11}" for cell in [*counts, *speeds, *milliseconds])


def conclusion(args: argparse.Namespace, curve: ScalingCurve, findings: list[ScalingFinding]) -> Iterator[str]:
    """Yield the bubble, the caveats, and the findings for the most processes, the costliest first."""
    if curve.last.orders:
        yield describe_bubble(curve)
    yield from caveats(curve)
    if len(curve.runs) > 1 and not any(finding.won_ms for finding in findings):
        yield f"nothing that costs {limits.LEAST:g} % of a step of {len(curve.last.processes)} processes"
    for number, finding in enumerate(findings, 1):
        yield f"{number}. {describe_finding(finding)}"
    axes = list(dict.fromkeys(finding.axis for finding in findings if finding.axis))
    if axes:
        count = f"--processes {len(curve.last.processes)}"
        words = f"--config {shlex.quote(args.config)} --candidate {curve.job.candidate} --device {curve.job.device}"
        yield f"measure and write them: nightshift perf tune {words} {count} --axes {' '.join(axes)}"


def describe_bubble(curve: ScalingCurve) -> str:
    """Return the bubble beside the formula's."""
    expected = bubbles.formula(curve.job.layout, curve.job.pieces)
    beside = "no formula for this schedule" if expected is None else f"(p - 1) / (v m + p - 1) is {expected:.1%}"
    share = curve.last.bubble_share or 0.0
    return f"bubble: {share:.1%} of the pipeline's time, from its pieces' measured seconds; {beside}"


def caveats(curve: ScalingCurve) -> Iterator[str]:
    """Yield what the figures do not say."""
    cores = curve.last.cores
    if curve.last.shares_cores:
        yield (
            f"caveat: {len(curve.last.processes)} processes share {cores} cores, so that efficiency is the speed of a "
            "core, and the time that stages wait is used by others"
        )
    if not len(curve.runs) > 1 or len(curve.first.processes) > 1:
        yield "caveat: without a measurement of one process, efficiency is relative to the first line"


def describe_finding(finding: ScalingFinding) -> str:
    """Return a finding as a sentence or more."""
    lost = "" if finding.won_ms is None else f" ({finding.won_ms:,.1f} ms, {finding.won_pct:.1f} % of a step)"
    text = f"{finding.title}{lost}: {finding.evidence} {finding.fix}"
    if not finding.setting:
        return text
    expected = "only trying tells" if finding.expected_gain_pct is None else f"+{finding.expected_gain_pct:.1f} %"
    return f"{text} {finding.setting}: {finding.value} (rows/s expected: {expected}{_describe_check(finding)})"


def _describe_check(finding: ScalingFinding) -> str:
    if finding.refused:
        return f"; not measured: {finding.refused}"
    if finding.measured_gain_pct is None:
        return ""
    surely = {True: "faster", False: "not faster", None: "undecided"}[finding.faster]
    return f"; measured: {finding.measured_gain_pct:+.1f} %, {surely}"


def check_setting(job: ScalingSpec, run: ScalingMeasurement, finding: ScalingFinding) -> ScalingFinding:
    """Return a finding with what its setting gains, measured in turn with the config's own."""
    if not finding.setting:
        return finding
    count = len(run.processes)
    request = job.request(count)
    setting = TuningSetting(job.device, job.network, request["rows"], [finding.axis])
    before = Variant(request["parameters"], request["trainer"], count)
    start = partial(VariantProcess, setting=setting)
    try:
        with start(before) as now, start(before.with_value(finding.axis, finding.value)) as other:
            compared = Search(start, setting, print).compare(now, other)
    except UserError as error:
        return finding.model_copy(update={"refused": str(error)})
    faster = {Decision.FAIL: True, Decision.PASS: False}.get(compared.decision)
    return finding.model_copy(update={"measured_gain_pct": round(100 * compared.gain, 1), "faster": faster})
