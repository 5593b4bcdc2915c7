"""The command line: `nightshift <command>`, the same as `python -m pipelines.cli <command>`."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.common import storage
from components.common.config import parse
from components.common.errors import UnavailableError, UserError
from components.common.splits import parse_date
from components.common.step import USER_ERROR
from pipelines import arguments, configs
from pipelines.engines.local import processes, runs
from pipelines.engines.local.run import Run
from pipelines.environments import BACKFILL, KUBEFLOW_INSIDE, SITES, TARGETS, Environment, local, site

if TYPE_CHECKING:
    from components.common.kubeflow import Server

INTERRUPTED = 130
RUNNERS = {"process": "local", "docker": "register-only"}  # what runs a step -> where models are deployed by default


def main() -> None:
    """Run one command and exit: 0 when all went well, 1 when a step failed, 2 when the user has something to mend."""
    args = _parser().parse_args()
    try:
        sys.exit(args.command(args))
    except UserError as error:
        print(f"nightshift: {error}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except UnavailableError as error:
        print(f"nightshift: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:  # of this machine's files: stores are read and written by the steps
        print(f"nightshift: {storage.explained(error, error.filename)}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run(args: argparse.Namespace) -> int:
    """Run a pipeline here, or an unfinished run of it again."""
    from rich.console import Console

    from pipelines.engines.local.progress import Progress, explain_failure, next_pipeline

    this = _resumed(args) if args.resume else _started(args)
    if args.runner == "docker":
        this = runs.in_containers(this)
    console = Console()
    console.print(f"run {this.folder.name}", highlight=False)
    with runs.alone(this), Progress(this.pipeline, console) as progress:
        succeeded = this.execute(progress)
    if not succeeded:
        explain_failure(this, console)
        failed = [outcome.exit_code for outcome in this.outcomes.values() if outcome.state == "failed"]
        return USER_ERROR if USER_ERROR in failed else 1
    _show(this.folder)
    follows = next_pipeline(this.folder)
    # a run that is resumed does not know with which options it was started
    if follows and not args.resume:
        _say(f"next     {_command(args, follows, this.arguments['date'])}")
    return 0


def backfill(args: argparse.Namespace) -> int:
    """Run a pipeline for past days, without promoting or serving; days that are complete are left out."""
    from rich.console import Console

    from pipelines.engines.local import backfill as past

    console = Console()
    dates = past.days(parse_date(args.first), parse_date(args.last))
    environment = local(Path(args.workspace), target=BACKFILL)
    found = list(
        past.backfill(arguments.compiled(args.pipeline), dates, _options(args), environment, console, args.force)
    )
    console.print(past.table(found))
    return int(found[-1].state == "failed")


def submit(args: argparse.Namespace) -> int:
    """Start a run on Kubeflow, as `kfp run create` does, with typed parameters."""
    from components.common.kubeflow import Definition
    from pipelines.engines.kubeflow import submission

    pipeline, server = arguments.compiled(args.pipeline, site(args.environment).name), _server(args)
    values = arguments.gathered(pipeline, _options(args), {"kubeflow": _inside(args)})
    started = server.submit(arguments.run_name(pipeline, values), Definition.read(pipeline.yaml), values)
    _say(f"run      {started.name}\nid       {started.run_id}\nurl      {started.url}")
    return int(args.wait and not submission.watch(server, started.run_id, partial(print, flush=True)))


def schedule(args: argparse.Namespace) -> int:
    """Have Kubeflow train and monitor every night; only monitor where the config retrains on drift."""
    from pipelines.engines.kubeflow import submission

    server, nightly = _server(args), arguments.compiled("nightly", site(args.environment).name)
    changes = []
    for pipeline, cron in (("training", args.cron), ("monitoring", args.monitoring_cron)):
        values = arguments.gathered(nightly, _options(args) | {"pipeline": pipeline}, {"kubeflow": _inside(args)})
        name, policy = f"{values['config']['name']}-{pipeline}", values["config"]["controller"]["retrain"]
        daily = pipeline == "monitoring" or policy == "daily"
        wanted = submission.recurring(name, nightly, values, cron) if daily else None
        said = f"at {cron}" if daily else f"not by the clock, since controller.retrain is {policy}"
        changes.append((pipeline, submission.change(server, name, wanted, args.replace), said))
    # only now, so that a refusal leaves everything as it was
    for pipeline, change, said in changes:
        uploaded = submission.upload(server, pipeline, arguments.COMPILED / args.environment / f"{pipeline}.yaml")
        _say(f"{pipeline}: {'uploaded' if uploaded else 'the newest version there is the same'}")
        changed = submission.schedule(server, change)
        _say(f"{change.name}: {said}{'' if changed else ', as before'}")
    return 0


def exporter(args: argparse.Namespace) -> int:
    """Show Prometheus the runs on Kubeflow, until it is ended; a run that never started is missed there too."""
    from pipelines.engines.kubeflow.exporter import serve

    serve(_server(args), args.host, args.port, partial(print, flush=True))
    return 0


def show(args: argparse.Namespace) -> int:
    """Print a run's metrics and verdicts again."""
    return _show(runs.folder_of(args.run, _environment(args).runs))


def report(args: argparse.Namespace) -> int:
    """Write the summary and report of a run that did not get to its last step."""
    this = runs.again(runs.folder_of(args.run, _environment(args).runs))
    task = next((task for task in this.pipeline.tasks if task.name == "reporting"), None)
    if task is None:
        raise UserError(f"{this.pipeline.name} writes no report; nightshift show {args.run} prints what it found")
    with runs.alone(this):
        code = subprocess.run(this.commands.argv(task), env=processes.environment(task), check=False).returncode
    return code or _say(f"report   {this.folder / 'report.html'}")


def compile_all(args: argparse.Namespace) -> int:
    """Compile the pipelines to the YAML that every engine reads."""
    from pipelines.compiling import compile_pipelines

    for name in args.environment or SITES:
        for path in compile_pipelines(site(name), Path(args.folder)):
            _say(f"wrote {path}")
    return 0


def manage(args: argparse.Namespace) -> int:
    """Look after registered models and the endpoint: the deployment component's own commands."""
    command = [sys.executable, "-m", "components.deployment.manage", args.action]
    command += [args.version] if args.action == "promote" else []
    command += ["--registry", _environment(args).registry]
    command += ["--name", args.name] if args.name else []
    return subprocess.run(command, check=False).returncode


def gc(args: argparse.Namespace) -> int:
    """List the runs, partitions and model versions past the config's ages that no live model needs, or remove them."""
    from rich.console import Console

    from pipelines.upkeep import sweep

    environment, config, now = local(Path(args.workspace)), parse(configs.load(args.config)), datetime.now(UTC)
    environment = replace(environment, lake=args.lake or environment.lake)
    plan = (sweep.collect if args.delete else sweep.planned)(environment, config, now)
    for problem in plan.problems:
        print(f"nightshift: kept: {problem}", file=sys.stderr)
    if plan.empty:
        return _say(f"nothing of {config.name!r} is past its age")
    console = Console()
    console.print(sweep.table(plan, "removed" if args.delete else "would be removed", now))
    console.print(sweep.lineage(plan.lineage))
    return 0 if args.delete else _say(f"remove it   nightshift {shlex.join(sys.argv[1:])} --delete")


def _started(args: argparse.Namespace) -> Run:
    environment = local(Path(args.workspace), args.target or RUNNERS[args.runner])
    return runs.new(arguments.compiled(args.pipeline), _options(args), environment)


def _resumed(args: argparse.Namespace) -> Run:
    given = [*_options(args), *(["target"] if args.target else [])]
    if given:
        raise UserError(f"a run is resumed with its own parameters; leave out {', '.join(given)}, or start a new run")
    return runs.again(runs.folder_of(args.resume, _environment(args).runs))


def _show(folder: Path) -> int:
    from rich.console import Console

    from pipelines.engines.local.progress import show_summary, show_watch

    path = folder / "summary.json"
    if path.exists():
        show_summary(json.loads(path.read_text()), folder, Console())
    else:
        show_watch(folder, Console())
    return 0


def _command(args: argparse.Namespace, pipeline: str, date: str) -> str:
    """Return the command that runs another pipeline for the date, with the options that this run was given."""
    usual, words = vars(_parser().parse_args(["run"])), ["nightshift", "run", pipeline, "--date", date]
    for name in ("config", "data", "device", "runner", "target", "workspace"):
        if getattr(args, name) != usual[name]:
            words += [f"--{name}", getattr(args, name)]
    known = arguments.compiled(pipeline).parameters
    words += [word for item in args.set if item.partition("=")[0] in known for word in ("--set", item)]
    return shlex.join(words)


def _say(line: str) -> int:
    print(line)
    return 0


def _environment(args: argparse.Namespace) -> Environment:
    return local(Path(args.workspace))


def _server(args: argparse.Namespace) -> "Server":
    from components.common.kubeflow import Place, Server

    return Server(Place(args.endpoint, args.experiment, args.namespace, args.service_account), args.token_file)


def _inside(args: argparse.Namespace) -> dict[str, str]:
    """Return the place as the steps are told of it."""
    from components.common.kubeflow import Place

    return asdict(Place(args.inside, args.experiment, args.namespace, args.service_account))


def _options(args: argparse.Namespace) -> dict[str, Any]:
    named = {name: getattr(args, name, None) for name in ("date", "data", "config", "device")}
    return {name: value for name, value in named.items() if value} | dict(_assignment(item) for item in args.set)


def _assignment(item: str) -> tuple[str, Any]:
    name, sign, value = item.partition("=")
    if not sign:
        raise UserError(f"--set takes name=value, got {item!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nightshift", description="A daily GPU machine-learning pipeline.")
    commands = parser.add_subparsers(required=True, metavar="command")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--workspace", default=".", help="folder that holds lake, registry and runs (default: here)")
    _add_run(commands, shared)
    _add_backfill(commands, shared)
    _add_submit(commands)
    _add_schedule(commands)
    _add_exporter(commands)
    for name, function in (("show", show), ("report", report)):
        command = commands.add_parser(name, parents=[shared], help=str(function.__doc__), description=function.__doc__)
        command.add_argument("run", nargs="?" if name == "show" else None, default="latest", help="the run's id")
        command.set_defaults(command=function)
    compiling = commands.add_parser("compile", help=str(compile_all.__doc__), description=compile_all.__doc__)
    compiling.add_argument("--environment", action="append", help=f"one of {', '.join(SITES)} (default: all)")
    compiling.add_argument("--folder", default=str(arguments.COMPILED), help="where to write (default: %(default)s)")
    compiling.set_defaults(command=compile_all)
    _add_manage(commands, shared)
    _add_gc(commands, shared)
    return parser


def _add_run(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser("run", parents=[shared], help=str(run.__doc__), description=run.__doc__)
    _add_pipeline(command)
    command.add_argument("--runner", choices=RUNNERS, default="process", help="docker: each step in its image")
    command.add_argument("--target", choices=TARGETS, help="where to deploy (default: local, in docker register-only)")
    command.add_argument("--resume", metavar="RUN", help="go on with an unfinished run, with its own parameters")
    _add_options(command)
    command.set_defaults(command=run)


def _add_backfill(commands: Any, shared: argparse.ArgumentParser) -> None:
    text = str(backfill.__doc__)
    command = commands.add_parser("backfill", parents=[shared], help=text, description=text)
    command.add_argument(
        "pipeline", nargs="?", default=arguments.DEFAULT, help="compiled pipeline (default: %(default)s)"
    )
    command.add_argument("--from", dest="first", required=True, metavar="DATE", help="first logical date")
    command.add_argument("--to", dest="last", required=True, metavar="DATE", help="last logical date, inclusive")
    command.add_argument("--force", action="store_true", help="run complete days again too")
    _add_options(command)
    command.set_defaults(command=backfill)


def _add_submit(commands: Any) -> None:
    command = commands.add_parser("submit", help=str(submit.__doc__), description=submit.__doc__)
    _add_pipeline(command)
    _add_cluster(command)
    command.add_argument("--wait", action="store_true", help="tell how it goes, and exit with 1 if it fails")
    _add_options(command)
    command.set_defaults(command=submit)


def _add_schedule(commands: Any) -> None:
    command = commands.add_parser("schedule", help=str(schedule.__doc__), description=schedule.__doc__)
    _add_cluster(command)
    command.add_argument("--cron", default="0 0 2 * * *", help="when to train, seconds first (default: %(default)s)")
    command.add_argument("--monitoring-cron", default="0 0 6 * * *", help="when to monitor (default: %(default)s)")
    command.add_argument("--replace", action="store_true", help="delete other recurring runs of the same names")
    _add_options(command)
    command.set_defaults(command=schedule)


def _add_exporter(commands: Any) -> None:
    command = commands.add_parser("exporter", help=str(exporter.__doc__), description=exporter.__doc__)
    _add_server(command)
    command.add_argument("--host", default="127.0.0.1", help="address to listen on; a pod needs 0.0.0.0 (%(default)s)")
    command.add_argument("--port", type=int, default=9108, help="port to listen on (default: %(default)s)")
    command.set_defaults(command=exporter, service_account="")


def _add_cluster(command: argparse.ArgumentParser) -> None:
    _add_server(command)
    command.add_argument("--environment", required=True, help=f"the cluster, such as {list(SITES)[-1]}")
    command.add_argument("--inside", default=KUBEFLOW_INSIDE, help="its URL as the steps see it (default: %(default)s)")
    command.add_argument("--service-account", default="nightshift", help="of the runs (default: %(default)s)")


def _add_server(command: argparse.ArgumentParser) -> None:
    names = {"endpoint": os.environ.get("KFP_ENDPOINT", ""), "namespace": os.environ.get("KFP_NAMESPACE", "")}
    command.add_argument("--endpoint", default=names["endpoint"], help="URL of Kubeflow Pipelines (or: KFP_ENDPOINT)")
    command.add_argument("--experiment", default="nightshift", help="of the runs (default: %(default)s)")
    command.add_argument("--namespace", default=names["namespace"], help="the profile's, on a multi-user Kubeflow")
    command.add_argument("--token-file", default="", help="file with the bearer token (default: the one in a pod)")


def _add_pipeline(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "pipeline", nargs="?", default=arguments.DEFAULT, help="compiled pipeline (default: %(default)s)"
    )
    command.add_argument("--date", help="logical date, the last complete UTC day (default: yesterday)")


def _add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data", help=f"folder, s3:// or gs:// with the raw events (default: {arguments.SIMULATOR})")
    command.add_argument("--config", help="use case: a name in pipelines/configs/ or a YAML file (default: fraud)")
    command.add_argument("--device", choices=["cpu", "cuda"], help="where to compute (default: cpu)")
    command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other parameter")


def _add_manage(commands: Any, shared: argparse.ArgumentParser) -> None:
    actions = {
        "models": "List the registered model versions.",
        "promote": "Make a version the champion and serve it.",
        "rollback": "Go back to the champion before this one.",
        "stop": "End the local endpoint.",
    }
    for action, text in actions.items():
        command = commands.add_parser(action, parents=[shared], help=text, description=text)
        if action == "promote":
            command.add_argument("version", help="the version's number, as in `nightshift models`")
        command.add_argument("--name", help="the use case (default: the only one)")
        command.set_defaults(command=manage, action=action)


def _add_gc(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser("gc", parents=[shared], help=str(gc.__doc__), description=gc.__doc__)
    command.add_argument("--config", default="fraud", help="use case: a name in pipelines/configs/ or a YAML file")
    command.add_argument("--lake", help="root of the tables by day (default: the workspace's)")
    command.add_argument("--delete", action="store_true", help="remove what is listed without this")
    command.set_defaults(command=gc)


if __name__ == "__main__":
    main()
