"""Commands about what is fixed before a run: the compiled pipelines and the config."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError
from pipelines import arguments, configs
from pipelines.cli import options
from pipelines.cli.guess import add_guess
from pipelines.compiling import compile_pipelines
from pipelines.environments import LOCAL, SITES, site


def add(commands: options.Commands) -> None:
    """Add the commands."""
    command = options.add_command(commands, "compile", compile_all.__doc__)
    command.add_argument(
        "--environment",
        action="append",
        help=f"environment to compile for: {', '.join(SITES)}; repeatable (default: local, for all)",
    )
    command.add_argument(
        "--folder", default=str(arguments.COMPILED), help="folder to write into (default: %(default)s)"
    )
    command.add_argument(
        "--trainjobs",
        action="store_true",
        help="run trainings as TrainJobs, for configs with task.trainer.nodes above 1",
    )
    command.add_argument(
        "--feature-shards",
        type=int,
        default=0,
        metavar="N",
        help="compute features in N steps that run at the same time (default: in the features step alone)",
    )
    command.set_defaults(command=compile_all)
    config = options.add_command(
        commands, "config", "Guess a config from a file, check and print one, or print the JSON Schema of configs."
    )
    actions = config.add_subparsers(required=True, metavar="action")
    options.add_command(actions, "schema", schema.__doc__).set_defaults(command=schema)
    showing = options.add_command(actions, "show", show.__doc__)
    showing.add_argument("config", help="use case, by its name in pipelines/configs/ or a YAML file")
    showing.set_defaults(command=show)
    add_guess(actions)


def compile_all(args: argparse.Namespace) -> int:
    """Compile the pipelines to the YAML that every engine reads."""
    if args.feature_shards < 0:
        raise UserError(f"--feature-shards is {args.feature_shards}; give a number of steps, or leave it out")
    for name in args.environment or [LOCAL.name]:
        variant = replace(site(name), feature_shards=args.feature_shards)
        variant = variant.with_trainjobs() if args.trainjobs else variant
        for path in compile_pipelines(variant, Path(args.folder)):
            options.say(f"wrote {path}")
    return 0


def schema(_: argparse.Namespace) -> int:
    """Print the JSON Schema of the config, for editors."""
    return options.say(json.dumps(configs.schema(), indent=2))


def show(args: argparse.Namespace) -> int:
    """Check a config and print it with all defaults filled in."""
    return options.say(strict_yaml.dump(configs.load(args.config)))
