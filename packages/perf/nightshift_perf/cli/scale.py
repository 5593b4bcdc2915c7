"""The command that measures how a network's training scales."""

import argparse
import os
from collections.abc import Iterator, Sequence

from nightshift.config import parse
from nightshift.contracts.profile import Finding
from nightshift.runtime.errors import UserError
from nightshift_perf import replicas
from nightshift_perf.cli.tune import choose_network, find_network, width
from nightshift_perf.contracts import ScalingReport, ScalingRun
from nightshift_perf.replicas import FAULTS, ScalingMeasurement, ScalingSpec
from pipelines import configs
from pipelines.cli import options

HEADINGS = ("processes", "rows/s", "efficiency", "step ms", "computing", "rows", "waiting", "exchange")


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "scale", scale.__doc__)
    command.add_argument("--config", required=True, help="use case, by its name in pipelines/configs/ or a YAML file")
    command.add_argument("--candidate", help="name of the network in the config (default: the only one)")
    command.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="device to train on (default: cpu)")
    command.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2], help="numbers of processes to measure (default: 1 2)"
    )
    command.add_argument("--rows", type=int, help="rows per process and step (default: the config's batch_size)")
    command.add_argument(
        "--inputs", type=int, help="number of inputs per row of a table (default: the config's, one for each category)"
    )
    command.add_argument(
        "--inject-fault", choices=FAULTS, default="", help="slow the training down to check the diagnosis"
    )
    options.add_json(command, "scaling_report")
    command.set_defaults(command=scale)


def scale(args: argparse.Namespace) -> int:
    """Measure how a network's training scales over processes, and diagnose what slows it down."""
    if min([*args.processes, *(number for number in (args.rows, args.inputs) if number is not None)]) < 1:
        raise UserError("--rows, --inputs and --processes have to be above 0")
    config, cores = parse(configs.load(args.config)), len(os.sched_getaffinity(0))
    if args.device == "cpu" and max(args.processes) > cores:
        raise UserError(f"--processes is {max(args.processes)}, and there are {cores} cores, one for each")
    name = choose_network(config, args.candidate)
    network, trainer = find_network(config, name, args.inputs), config.task.trainer
    if max(trainer.shard, trainer.tensor, trainer.pipeline) > 1 or trainer.zero:
        raise UserError(
            "task.trainer: splits a network, and this measures replicas; leave out shard, tensor, pipeline and zero"
        )
    job = ScalingSpec(
        network=network,
        trainer=trainer.model_dump(mode="json"),
        device=args.device,
        rows=args.rows or network.parameters["batch_size"],
        fault=args.inject_fault,
    )
    options.report(args, f"{name} on {args.device}, {job.rows} rows of {width(network.shape)} a process and step")
    options.report(args, "".join(f"{heading:>12}" for heading in HEADINGS))
    measurements: list[ScalingMeasurement] = []
    for processes in sorted({1, *args.processes}):
        measurements.append(replicas.measure_scaling(job, processes))
        options.report(args, line(measurements[0], measurements[-1]))
    if args.json:
        return options.print_document(describe_scaling(name, job, measurements))
    for sentence in conclusion(measurements):
        options.report(args, sentence)
    return 0


def describe_scaling(name: str, job: ScalingSpec, measurements: Sequence[ScalingMeasurement]) -> ScalingReport:
    """Return the measurements of a network and their findings as a document."""
    points = [
        ScalingRun(
            processes=len(measurement.processes),
            rows_per_second=measurement.speed,
            efficiency=measurement.efficiency(measurements[0]),
            step_seconds=measurement.step,
            computing_seconds=measurement.computing,
            data_seconds=measurement.data,
            waiting_seconds=measurement.waiting,
            exchange_seconds=measurement.exchanging,
        )
        for measurement in measurements
    ]
    findings = _diagnose(measurements)
    return ScalingReport(candidate=name, device=job.device, rows=job.rows, points=points, findings=findings)


def line(first: ScalingMeasurement, measurement: ScalingMeasurement) -> str:
    """Return a row of the table; the last four columns are milliseconds."""
    parts = (measurement.step, measurement.computing, measurement.data, measurement.waiting, measurement.exchanging)
    figures = [f"{len(measurement.processes)}", f"{measurement.speed:,.1f}", f"{measurement.efficiency(first):.1%}"]
    return "".join(f"{cell:>12}" for cell in [*figures, *(f"{1e3 * part:,.1f}" for part in parts)])


def conclusion(measurements: Sequence[ScalingMeasurement]) -> Iterator[str]:
    """Yield the findings for the most processes, the costliest first."""
    *_, last = measurements
    if len(measurements) < 2:
        return
    findings = _diagnose(measurements)
    if not findings:
        yield f"nothing that costs {replicas.LEAST:g} % of a step of {len(last.processes)} processes"
    for number, finding in enumerate(findings, 1):
        lost = f"{finding.won_ms:,.1f} ms, {finding.won_pct:.1f} % of a step"
        yield f"{number}. {finding.title} ({lost}): {finding.evidence} {finding.fix}"


def _diagnose(measurements: Sequence[ScalingMeasurement]) -> list[Finding]:
    return replicas.diagnose_scaling(measurements[0], measurements[-1]) if len(measurements) > 1 else []
