"""The command that chooses the form in which a graph is served."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from nightshift import storage
from nightshift.contracts.optimization import FILE, Attempt, Optimization
from nightshift.runtime.errors import UserError
from pipelines import configs, ir, records
from pipelines.cli import options
from pipelines.configs import edits
from pipelines.engines.local import processes, runs
from pipelines.engines.local.run import Run

STEP = "optimization"


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "optimize", optimize.__doc__)
    command.add_argument("run", nargs="?", default="latest", help="training run of the model (default: the latest run)")
    command.add_argument("--config", required=True, help="use case, by its name in pipelines/configs/ or a YAML file")
    command.add_argument("--dry-run", action="store_true", help="print the variant without writing it")
    options.add_json(command, "optimization")
    options.add_workspace(command)
    command.set_defaults(command=optimize)


def optimize(args: argparse.Namespace) -> int:
    """Measure each optimized variant of a model, and write the fastest accurate one into the config."""
    file, config = configs.find_file(args.config), configs.load(args.config)
    training = runs.reopen(records.find_folder(args.run, options.state(args).runs))
    task = _step(training, config["name"])
    with tempfile.TemporaryDirectory() as folder:
        argv = _command(training, task, folder)
        code = subprocess.run(
            argv, env=processes.environment(task), stdout=sys.stderr if args.json else None, check=False
        ).returncode
        if code:
            return code
        result = Optimization.read(storage.join(folder, FILE))
    for line in report(result):
        options.report(args, line)
    if result.chosen == config["optimization"]["form"]:
        options.report(args, f"{file} says so already: optimization.form is {result.chosen!r}")
    else:
        options.report(args, edits.write(file, {("optimization", "form"): result.chosen}, args.dry_run))
    return options.print_document(result) if args.json else 0


def report(result: Optimization) -> Iterator[str]:
    """Yield a line for each form, and which is the fastest."""
    for attempt in result.attempts:
        yield f"  {attempt.name:13} {_latencies(attempt):28} {attempt.reason}"
    yield f"the form to serve {result.candidate} in: {result.chosen}"


def _latencies(attempt: Attempt) -> str:
    return ", ".join(f"{latency.rows:,} in {latency.median_ms:.3g} ms" for latency in attempt.latencies)


def _step(training: Run, use_case: str) -> ir.PipelineTask:
    task = next((task for task in training.pipeline.tasks if task.name == STEP), None)
    trained = training.arguments["config"]["name"]
    if task is None or trained != use_case:
        raise UserError(
            f"{training.folder.name} is no training of {use_case!r}; name one of those in {training.folder.parent}, "
            f"or start one: nightshift run training --config {use_case}"
        )
    return task


def _command(training: Run, task: ir.PipelineTask, folder: str) -> list[str]:
    """Return the command that measures the forms of a run's graph and writes the result into a folder."""
    config = training.commands.fill(task, "parameter", "config")
    features, model = (training.commands.fill(task, "input", name) for name in ("features", "model"))
    flags = {"config": config, "features": features, "model": model, "result": folder}
    arguments = [word for name, value in flags.items() for word in (f"--{name}", value)]
    return [sys.executable, "-m", "components.optimization.compare", *arguments]
