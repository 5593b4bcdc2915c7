"""The command line: `nightshift <command>`, the same as `python -m pipelines.cli <command>`."""

import argparse
import ast
import importlib.util
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from nightshift import entry_points
from nightshift.runtime.errors import UnavailableError, UserError, require_extra
from nightshift.runtime.printable import exit_on_closed_pipe, printable_lines

INTERRUPTED = 130
# module, which is imported when one of its commands is named -> command -> its help, the docstring of its function
COMMANDS = {
    "runs": {
        "run": "Run a pipeline on this machine, or resume an unfinished run.",
        "backfill": "Run a pipeline for past days without promoting or serving a model; complete days are skipped.",
        "loadtest": "Measure the capacity of the champion's server, and keep the best settings for the endpoint.",
        "show": "Print the metrics and verdicts of a run.",
        "report": "Write the summary and report of a run that failed before its last step.",
    },
    "kubeflow": {
        "submit": "Start a run on Kubeflow, like `kfp run create` but with checked parameters.",
        "schedule": "Schedule the pipelines of a use case on Kubeflow, by its config's `schedule`.",
        "exporter": "Export metrics of Kubeflow's runs to Prometheus, including runs that never started.",
    },
    "definitions": {
        "compile": "Compile the pipelines to the YAML that every engine reads.",
        "config": "Guess a config from a file, check and print one, or print the JSON Schema of configs.",
    },
    "features": {
        "features": "Rank declared features by what they gain on validation days, or plan their online state.",
    },
    "models": {
        "models": "List the registered model versions.",
        "approve": "Approve a version that has passed its gates and waits for a person.",
        "promote": "Make a version the champion and serve it.",
        "rollback": "Restore the previous champion.",
        "serve": "Run the local endpoint in the foreground, for a supervisor that restarts it.",
        "stop": "Stop the local endpoint.",
    },
    "hub": {
        "push": "Push a registered model version to the Hugging Face Hub, to a private repository by default.",
    },
    "cloud": {
        "cloud": "Configure an environment in a cloud; needs a checkout of the repository, for `infra/`.",
    },
    "release": {
        "release": "Start, show, pause, resume or abort a release; `nightshift run release` advances it.",
    },
    "experiment": {
        "experiment": "Plan, start, show or stop an experiment: the release of a version with its expected duration "
        "and its costs.",
    },
    "costs": {
        "costs": "Show the costs of runs by step, run, model version and use case, or estimate those of a training.",
    },
    "optimize": {
        "optimize": "Measure each optimized variant of a model, and write the fastest accurate one into the config.",
    },
    "doctor": {
        "doctor": "Check that this machine, an environment or a cloud account meets the needs of runs; name each fix.",
        "debug-dump": "Archive versions, settings, the doctor's report and a run's logs for a colleague, no secrets.",
    },
    "mcp": {
        "mcp": "Answer an MCP client on stdin and stdout, read-only: runs, reports, models, drift, costs.",
    },
    "ui": {
        "ui": "Serve the workspace's pages on this machine: runs, reports, models, drift, data, costs.",
    },
    "notify": {
        "notify": "Deliver pending notifications of nights to the receivers of a config, or test the receivers.",
    },
    "history": {
        "runs": "List the newest runs, or those that failed or have not ended.",
        "drift": "Show the verdicts on drift of a use case, and since when each drifted input has drifted.",
    },
    "contract": {
        "contract": "Import a config from a data contract (ODCS 3), or export a use case's.",
    },
    "events": {
        "events": "Find the events of a customer or another identifier, with what each version scored them.",
    },
    "repair": {
        "repair": "Show the readable records of a damaged online state, or continue from them. Nothing is removed.",
    },
    "projects": {
        "projects": "List what practitioners do with this, a page and a first command each; needs a checkout of the "
        "repository.",
    },
    "scaffold": {
        "init": "Write a project of your own into the current folder, which has to be empty.",
        "update": "Show what the installed version would change in the files that `nightshift init` has written, or "
        "change them.",
    },
    "erase": {
        "erase": "Erase a person or another entity from every store of a use case, and prove its absence by a search.",
    },
    "gc": {
        "gc": "List or delete expired runs, days, checkpoints and versions that no live model needs.",
    },
}
GROUPS = {
    "project": ("scaffold",),
    "run": ("runs", "history", "projects", "kubeflow", "costs", "notify", "ui", "mcp"),
    "models": ("models", "hub", "optimize"),
    "release": ("release", "experiment"),
    "data": ("definitions", "features", "contract", "events", "repair", "gc", "erase"),
    "cloud": ("cloud", "doctor"),
}
WIDTH = 12


def main() -> None:
    """Run one command and exit: 0 on success, 1 when a step failed, 2 when the user has something to fix."""
    with exit_on_closed_pipe():
        sys.exit(_run(sys.argv[1:]))


def _run(argv: Sequence[str]) -> int:
    args = parse_command_line(argv)
    # below it, so that --help takes no longer than its text
    from nightshift.runtime.step import USER_ERROR
    from nightshift.storage import stores
    from pipelines.engines.local.signals import InterruptedRunError

    try:
        with require_extra():
            code: int = args.command(args)
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"nightshift: {printable_lines(str(error))}", file=sys.stderr)
        return USER_ERROR
    except UnavailableError as error:
        print(f"nightshift: {printable_lines(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # an OSError, but nobody's mistake
        raise
    except OSError as error:  # this machine's files: the steps read and write stores
        print(f"nightshift: {stores.explain(error, error.filename)}", file=sys.stderr)
        return USER_ERROR
    except InterruptedRunError as error:
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


class GroupedParser(argparse.ArgumentParser):
    """Lists the commands by group in its help."""

    def format_help(self) -> str:
        """Return the help."""
        return f"{super().format_help()}\n{describe_groups()}\n"


def parse_command_line(argv: Sequence[str]) -> argparse.Namespace:
    """Return the flags of a command with their values; `command` is its function.

    Only the module of the command that is named knows its flags. The others are known by their names, and packages'
    commands are looked for where no built-in one is named.
    """
    words = [word for word in argv if not word.startswith("-")]
    modules = {command: module for module, texts in COMMANDS.items() for command in texts}
    parser = GroupedParser(prog="nightshift", description="Run, release and monitor a daily machine-learning pipeline.")
    commands = parser.add_subparsers(required=True, metavar="command", parser_class=argparse.ArgumentParser)
    command = words[0] if words else ""
    if command in modules:
        importlib.import_module(f"pipelines.cli.{modules[command]}").add(commands)
    elif point := entry_points.find(entry_points.COMMANDS).get(command):
        point.load().add(commands, words[1:])
    else:
        for name in (*modules, *entry_points.find(entry_points.COMMANDS)):
            commands.add_parser(name)
    return parser.parse_args(argv)


def describe_groups() -> str:
    """Return all commands with their help, by group; a package's command is described by its module's docstring."""
    groups = {
        name: dict(chain.from_iterable(COMMANDS[module].items() for module in modules))
        for name, modules in GROUPS.items()
    }
    for name, point in entry_points.find(entry_points.COMMANDS).items():
        groups[name] = {name: read_summary(point.module)}
    return "\n\n".join(
        "\n".join([f"{group}:", *(f"  {name:{WIDTH}} {text}" for name, text in texts.items())])
        for group, texts in groups.items()
    )


def read_summary(module: str) -> str:
    """Return the first line of a module's docstring; the module is not imported, since that takes a second."""
    spec = importlib.util.find_spec(module)
    source = Path(spec.origin).read_bytes() if spec and spec.origin else b""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


if __name__ == "__main__":
    main()
