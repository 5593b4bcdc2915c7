"""The command that makes the training of a config's network faster."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nightshift import tasks
from nightshift.config import Config, parse
from nightshift.contracts.verdict import Decision
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.runtime.errors import UserError
from nightshift.stats.figures import format_value
from nightshift_perf import tuning
from nightshift_perf.contracts import TuningReport, TuningTrial
from nightshift_perf.tuning import (
    AXES,
    PROCESSES,
    Search,
    Speed,
    Start,
    Tried,
    Tuned,
    TuningSetting,
    Variant,
    VariantProcess,
)
from pipelines import configs
from pipelines.cli import options
from pipelines.configs import edits

TABLE, BATCHES = 50_000, 8  # rows of a table, batches of something larger
VALUE_AXES = (PROCESSES, "batch_size")  # axes with flags of their own
CHANGES_RESULT = ("precision", "compression", "batch_size")  # these change what is learned


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "tune", tune.__doc__)
    command.add_argument("--config", required=True, help="use case, by its name in pipelines/configs/ or a YAML file")
    command.add_argument("--candidate", help="name of the network in the config (default: the only one)")
    command.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="device to train on (default: cpu)")
    axes = [axis for axis in AXES if axis not in VALUE_AXES]
    command.add_argument("--axes", nargs="+", choices=axes, default=axes, help="settings to vary (default: all)")
    command.add_argument(
        "--processes",
        type=int,
        nargs="+",
        help="numbers of processes to try (default: those that share a network by task.trainer, or its processes)",
    )
    command.add_argument(
        "--batch-size",
        type=int,
        nargs="+",
        default=[],
        help="batch sizes to try; another one changes the trained model",
    )
    command.add_argument(
        "--rows", type=int, help="number of random rows to train on (default: 50000 for tables, else 8 batches)"
    )
    command.add_argument(
        "--inputs", type=int, help="number of inputs per row of a table (default: the config's, one for each category)"
    )
    command.add_argument(
        "--traces", help="folder for the traces before and after (default: runs/tune-CONFIG-CANDIDATE)"
    )
    command.add_argument("--dry-run", action="store_true", help="print the settings without writing them")
    options.add_json(command, "tuning_report")
    command.set_defaults(command=tune)


def tune(args: argparse.Namespace) -> int:
    """Search for the fastest training settings of a network, and write them into the config."""
    if (
        min(
            [
                *(args.processes or ()),
                *args.batch_size,
                *(size for size in (args.rows, args.inputs) if size is not None),
                1,
            ]
        )
        < 1
    ):
        raise UserError("--rows, --inputs, --processes and --batch-size have to be above 0")
    config = parse(configs.load(args.config))
    trainer = config.task.trainer
    args.processes = args.processes or [trainer.processes or trainer.sharing]
    tuning.check_processes(trainer, args.processes)
    name = choose_network(config, args.candidate)
    network = find_network(config, name, args.inputs)
    setting = _setting(args, network)
    trials = list[Tried]()
    options.report(args, f"{name} on {args.device}, {setting.rows:,} rows of {width(network.shape)}")

    def report(tried: Tried) -> None:
        trials.append(tried)
        options.report(args, line(tried, setting))

    search = Search(partial(VariantProcess, setting=setting), setting, report)
    baseline = Variant(network.parameters, trainer.model_dump(mode="json"), args.processes[0])
    tuned = tuning.tune(baseline, search)
    for sentence in conclusion(tuned, setting):
        options.report(args, sentence)
    if tuned.is_faster:
        folder = Path(args.traces or f"runs/tune-{config.name}-{name}")
        for sentence in record_traces({"before": baseline, "after": tuned.best}, search.start, folder):
            options.report(args, sentence)
        if changes := list_changes(tuned, name):
            options.report(args, edits.write(configs.find_file(args.config), changes, args.dry_run))
    return options.print_document(describe_tuning(name, setting, trials, tuned)) if args.json else 0


def describe_tuning(name: str, setting: TuningSetting, trials: Sequence[Tried], tuned: Tuned) -> TuningReport:
    """Return the trials of a network's settings and the best as a document."""
    return TuningReport(
        candidate=name,
        device=setting.device,
        rows=setting.rows,
        trials=list(map(_describe_trial, trials)),
        gain=tuned.total.gain if tuned.total and tuned.is_faster else None,
        changes=tuned.changes if tuned.is_faster else {},
    )


def _describe_trial(tried: Tried) -> TuningTrial:
    comparison = tried.comparison
    return TuningTrial(
        axis=tried.axis,
        value=tried.value,
        rows_per_second=comparison.after.rows if comparison else None,
        gain=comparison.gain if comparison else None,
        faster={Decision.FAIL: True, Decision.PASS: False}.get(comparison.decision) if comparison else None,
        refused=tried.refused,
    )


def line(tried: Tried, setting: TuningSetting) -> str:
    """Return the line of a variant: its speed, its gain over the best before, and its use of the device."""
    what = f"{tried.axis} {tried.value}"
    if not tried.comparison:
        return f"  {what:18} not measured: {tried.refused}"
    after, decision = tried.comparison.after, _describe_decision(tried.comparison.decision)
    figures = f"{after.rows:>12,.1f} rows/s  {100 * tried.comparison.gain:+7.1f} %  {_describe_usage(after, setting)}"
    return f"  {what:18} {figures}; {decision}"


def conclusion(tuned: Tuned, setting: TuningSetting) -> Iterator[str]:
    """Yield the total gain, and what to know before it is written."""
    if not tuned.total or not tuned.is_faster:
        yield "nothing is faster for sure; the config stays as it is"
        return
    before, after = tuned.total.before, tuned.total.after
    yield f"{100 * tuned.total.gain:.1f} % more rows/s: {before.rows:,.1f} -> {after.rows:,.1f}"
    yield f"used: {_describe_usage(before, setting)} -> {_describe_usage(after, setting)}"
    if changed := [axis for axis in CHANGES_RESULT if axis in tuned.changes]:
        yield f"changes what is learned, so compare the models: {', '.join(changed)}"


def record_traces(variants: Mapping[str, Variant], start: Start, folder: Path) -> Iterator[str]:
    """Record a trace of each variant; yield its three longest operations, and the command that shows more."""
    from nightshift_perf.traces import kernels, kineto, names  # NumPy, too

    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.json.gz" for name in variants}
    for name, variant in variants.items():
        with start(variant) as side:
            side.trace(str(paths[name].resolve()))
        with paths[name].open("rb") as file:
            longest = kernels.longest(kineto.read(file, str(paths[name])))
        operations = ", ".join(f"{names.short(kernel)} {format_value(share, 'percent')}" for kernel, share in longest)
        yield f"longest {name}: {operations}"
    yield f"more of it: nightshift perf profile --trace {paths['after']} --output {folder / 'profile'}"


def _describe_decision(decision: Decision) -> str:
    """Return the verdict on a variant from the gate's decision on the one before."""
    from nightshift.stats import performance  # NumPy, which Airflow's environment lacks

    slower = f"not {100 * performance.EXCLUDED:.0f} % faster"
    return {Decision.FAIL: "faster", Decision.PASS: slower, Decision.UNDECIDED: "undecided"}[decision]


def _describe_usage(speed: Speed, setting: TuningSetting) -> str:
    share = "unknown share" if speed.used is None else format_value(speed.used, "percent")
    return f"{format_value(speed.flops, 'flops')}, {share} of {'the peak' if setting.device == 'cuda' else 'the CPU'}"


def choose_network(config: Config, candidate: str | None) -> str:
    """Return the name of a network among the candidates of a config.

    Raises:
        UserError: when there is no such one, or several and none is named.
    """
    from nightshift.models import recipes  # PyTorch, which a command that asks for help does without

    networks = [name for name, estimator in config.task.candidates.items() if recipes.find(estimator.kind)]
    if candidate in networks:
        return candidate
    if candidate or len(networks) != 1:
        raise UserError(
            f"--candidate is {candidate}; {config.name!r} has these networks: {', '.join(networks) or 'none'}"
        )
    return networks[0]


def find_network(config: Config, name: str, inputs: int | None) -> ConfiguredNetwork:
    """Return a network of a config; of a table, with so many inputs, by default those of the config."""
    return tasks.find(config.task.kind).profiling.network(config, name, inputs)


def width(shape: Mapping[str, int]) -> str:
    """Return the size of a row as text."""
    if "side" in shape:
        return f"{shape['side']} x {shape['side']} pixels"
    return f"{shape['length']} tokens" if "length" in shape else f"{shape['inputs']} inputs"


def _setting(args: argparse.Namespace, network: ConfiguredNetwork) -> TuningSetting:
    rows = TABLE if "inputs" in network.shape else BATCHES * max(network.parameters["batch_size"], *args.batch_size, 1)
    return TuningSetting(
        device=args.device,
        network=network,
        rows=args.rows or rows,
        axes=[axis for axis in AXES if axis in (*args.axes, *VALUE_AXES)],
        processes=args.processes,
        batch_sizes=args.batch_size,
    )


def list_changes(tuned: Tuned, name: str) -> dict[tuple[str, ...], Any]:
    """Return the changes of a config, by key."""
    sections = {
        axis: ("trainer",) if axis in tuned.best.trainer else ("candidates", name, "parameters") for axis in AXES
    }
    return {("task", *sections[axis], axis): value for axis, value in tuned.changes.items()}
