"""Commands about runs on this machine: start, resume and repeat them for past days, show what they found."""

import argparse
import re
import shlex
import subprocess
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nightshift import registry
from nightshift.contracts.state import TARGETS, DeploymentTarget, State
from nightshift.data.dates import parse_date
from nightshift.registry.audit_log import log_action
from nightshift.runtime.argv import shorten
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import USER_ERROR
from pipelines import arguments, records
from pipelines.cli import options, plans
from pipelines.engines.local import backfill as past
from pipelines.engines.local import processes, runs
from pipelines.engines.local.run import Run
from pipelines.engines.local.signals import InterruptedRunError, exit_now, stop_on_signal
from pipelines.engines.local.warm import ForkServer
from pipelines.environments import local
from pipelines.ir import PipelineTask

if TYPE_CHECKING:
    from nightshift.contracts.section import Page

RUNNERS = {
    "process": DeploymentTarget.LOCAL,
    "docker": DeploymentTarget.REGISTER_ONLY,
}  # what runs a step -> where its models go


def add(commands: options.Commands) -> None:
    """Add the commands."""
    _add_run(commands)
    _add_backfill(commands)
    _add_loadtest(commands)
    _add_show(commands)
    _add_report(commands)


@stop_on_signal(exit_now)
def run(args: argparse.Namespace) -> int:
    """Run a pipeline on this machine, or resume an unfinished run."""
    this = _resume_run(args) if args.resume else _start_run(args)
    with _log_start(this, args):
        code = _execute(runs.use_containers(this) if args.runner == "docker" else this)
    page = _page(this.folder)
    # a resumed run does not know the options it was started with
    if code == 0 and page and page.headline.next and not args.resume:
        options.say(f"\nnext     {_command(args, page.headline.next, this.arguments['date'])}")
    return code


@stop_on_signal(exit_now)
def backfill(args: argparse.Namespace) -> int:
    """Run a pipeline for past days without promoting or serving a model; complete days are skipped."""
    from rich.console import Console

    from pipelines.cli import days

    console = Console(file=options.progress_stream(args))
    dates = past.days(parse_date(args.first), parse_date(args.last))
    state = local(Path(args.workspace), target=DeploymentTarget.RECORD_ONLY)
    pipeline, parameters = arguments.load_compiled(args.pipeline), options.parameters(args)
    observe = partial(days.progress, dates=dates, console=console)
    outcomes = list(past.backfill(pipeline, dates, parameters, state, observe, args.force))
    code = int(outcomes[-1].state == "failed")
    if args.json:
        return options.print_document(days.describe(outcomes), code)
    console.print(*days.tables(outcomes, console.width))
    return code


def show(args: argparse.Namespace) -> int:
    """Print the metrics and verdicts of a run."""
    state = options.state(args)
    if not args.json:
        return _show(records.find_folder(args.run, state.runs))
    from pipelines.workspace import Workspace

    return options.print_document(Workspace(state).read_report(args.run))


def report(args: argparse.Namespace) -> int:
    """Write the summary and report of a run that failed before its last step."""
    this = runs.reopen(records.find_folder(args.run, options.state(args).runs))
    task = _find_reporting(this)
    if task is None:
        raise UserError(f"{this.pipeline.name} writes no report; nightshift show {args.run} prints what it found")
    code = _write_report(this, task)
    return code or options.say(f"report   {this.folder / 'report.html'}")


@stop_on_signal(exit_now)
def loadtest(args: argparse.Namespace) -> int:
    """Measure the capacity of the champion's server, and keep the best settings for the endpoint."""
    names = {"p99_ms": args.p99_ms, "seconds": args.seconds, "connections": args.connections, "rates": args.rates}
    load = {name: value for name, value in names.items() if value is not None}
    parameters = options.parameters(args)
    if load and "load" in parameters:
        raise UserError(f"--set load=... and flags ({', '.join(load)}) say what the load is; give one of them")
    state = local(Path(args.workspace))
    return _execute(runs.new(arguments.load_compiled("loadtest"), {"load": load} | parameters, state))


def _execute(this: Run) -> int:
    """Run the steps and show what they found, or why they failed; return the exit code."""
    from rich.console import Console

    from pipelines.cli.progress import RunProgress, explain_failure, explain_resumption

    console = Console()
    console.print(f"run {this.folder.name}", highlight=False)
    try:
        with ForkServer() as server, runs.lock_run(this), RunProgress(this.pipeline, console) as progress:
            succeeded = runs.execute(runs.use_forks(this, server), progress)
    except InterruptedRunError:
        explain_resumption(this, console)
        raise
    if succeeded:
        return _show(this.folder)
    explain_failure(this, console)
    _report_failure(this)
    failed = [outcome.exit_code for outcome in this.outcomes.values() if outcome.state == "failed"]
    return USER_ERROR if USER_ERROR in failed else 1


def _find_reporting(this: Run) -> PipelineTask | None:
    """Return the step that writes the report; None where a pipeline has none."""
    return next((task for task in this.pipeline.tasks if task.name == "reporting"), None)


def _write_report(this: Run, task: PipelineTask) -> int:
    """Run the reporting step of a run that failed before it; return its exit code."""
    with runs.lock_run(this):
        command = shorten(this.commands.argv(task), this.folder / task.name)
        return subprocess.run(command, env=processes.environment(task), check=False).returncode


def _report_failure(this: Run) -> None:
    """Have the reporting step report a failure, where receivers are notified or a tracking server shows nights."""
    task = _find_reporting(this)
    receivers = this.arguments.get("config", {}).get("notify", {}).get("receivers")
    root = this.arguments.get("state", {}).get("registry", "")
    if task and (receivers or registry.find_tracking_server(root)):
        _write_report(this, task)


def _start_run(args: argparse.Namespace) -> Run:
    state = local(Path(args.workspace), args.target or RUNNERS[args.runner])
    return runs.new(
        arguments.load_compiled(args.pipeline), options.parameters(args) | plans.planned_config(args), state
    )


def _log_start(this: Run, args: argparse.Namespace) -> AbstractContextManager[None]:
    """Log that a person starts or resumes a run, where a reason says why."""
    if not args.reason:
        return nullcontext()
    state, name = this.arguments.get("state"), this.arguments.get("config", {}).get("name", "")
    where = State.from_mapping(state) if state else options.state(args)
    return log_action(where, "resume" if args.resume else "run", name, this.folder.name, args.reason)


def _resume_run(args: argparse.Namespace) -> Run:
    overrides = [*options.parameters(args), *(name for name in ("target", "plan") if getattr(args, name))]
    if overrides:
        raise UserError(
            f"a run resumes with its original parameters; leave out {', '.join(overrides)}, or start a new run"
        )
    return runs.reopen(records.find_folder(args.resume, options.state(args).runs))


def _show(folder: Path) -> int:
    if page := _page(folder):
        from rich.console import Console

        from pipelines.cli.page import show_page

        show_page(page, folder, Console())
    return 0


def _page(folder: Path) -> "Page | None":
    """Return a run's page; what reads it is not imported for a run that has none."""
    if not (folder / "page.json").exists():
        return None
    from nightshift.contracts.section import read_page

    return read_page(str(folder))


def _command(args: argparse.Namespace, pipeline: str, date: str) -> str:
    """Return the command that runs another pipeline for the date, with the options that this run was given."""
    argv = ["nightshift", "run", pipeline, "--date", date]
    for name in ("config", "plan", "data", "device", "runner", "target", "workspace"):
        if getattr(args, name) != args.usual(name):
            argv += [f"--{name}", getattr(args, name)]
    argv += ["--scale-down"] if args.scale_down else []
    known = arguments.load_compiled(pipeline).parameters
    argv += [word for item in args.set if re.split("[.=]", item)[0] in known for word in ("--set", item)]
    return shlex.join(argv)


def _add_run(commands: options.Commands) -> None:
    command = options.add_command(commands, "run", run.__doc__)
    options.add_pipeline(command)
    options.add_date(command)
    options.add_workspace(command)
    command.add_argument(
        "--runner",
        choices=RUNNERS,
        default="process",
        help="run each step as a process, or in its image with Docker (default: process)",
    )
    command.add_argument(
        "--target",
        choices=TARGETS,
        help="serve, only register, or only record the model (default: local, with docker register-only)",
    )
    command.add_argument("--resume", metavar="RUN", help="resume an unfinished run with its original parameters")
    options.add_reason(command)
    options.add_parameters(command)
    plans.add_plan(command)
    command.set_defaults(command=run, usual=command.get_default)


def _add_show(commands: options.Commands) -> None:
    command = options.add_command(commands, "show", show.__doc__)
    options.add_workspace(command)
    command.add_argument(
        "run", nargs="?", default="latest", help="id of the run (default: the newest run with a report)"
    )
    options.add_json(command, "page")
    command.set_defaults(command=show)


def _add_report(commands: options.Commands) -> None:
    command = options.add_command(commands, "report", report.__doc__)
    options.add_workspace(command)
    command.add_argument("run", help="id of the failed run, the name of its folder in runs")
    command.set_defaults(command=report)


def _add_loadtest(commands: options.Commands) -> None:
    command = options.add_command(commands, "loadtest", loadtest.__doc__)
    options.add_config(command)
    options.add_workspace(command)
    command.add_argument(
        "--p99-ms",
        type=float,
        help="limit of the 99th percentile of latency in ms (default: the config's release.max_p99_ms)",
    )
    command.add_argument("--seconds", type=float, help="duration of each measurement in seconds (default: 2)")
    command.add_argument(
        "--connections", type=int, nargs="+", help="numbers of connections of the closed loop (default: 1 8 32)"
    )
    command.add_argument(
        "--rates", type=float, nargs="+", help="rates of the open loop in requests/s (default: chosen automatically)"
    )
    options.add_set(command)
    command.set_defaults(command=loadtest)


def _add_backfill(commands: options.Commands) -> None:
    command = options.add_command(commands, "backfill", backfill.__doc__)
    options.add_pipeline(command)
    options.add_workspace(command)
    command.add_argument("--from", dest="first", required=True, metavar="DATE", help="first logical date, YYYY-MM-DD")
    command.add_argument(
        "--to", dest="last", required=True, metavar="DATE", help="last logical date, YYYY-MM-DD, inclusive"
    )
    command.add_argument("--force", action="store_true", help="also rerun the days that are complete")
    options.add_parameters(command)
    options.add_json(command, "backfill_report")
    command.set_defaults(command=backfill)
