"""Commands about declared features: what each line gains, and the online state that they need."""

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING

from nightshift.runtime.errors import UserError
from pipelines import arguments, configs
from pipelines.cli import options

if TYPE_CHECKING:
    from datetime import date

    from nightshift.config.tabular import TableConfig


def add(commands: options.Commands) -> None:
    """Add the commands."""
    command = options.add_command(
        commands, "features", "Rank declared features by what they gain on validation days, or plan their online state."
    )
    actions = command.add_subparsers(required=True, metavar="action")
    ranking = options.add_command(actions, "rank", rank.__doc__)
    _add_table(ranking)
    ranking.set_defaults(command=rank)
    planning = options.add_command(actions, "plan", plan.__doc__)
    _add_table(planning)
    planning.set_defaults(command=plan)


def rank(args: argparse.Namespace) -> int:
    """Measure what each line of features gains on the validation days and costs, and print the lines to keep."""
    from components.ingestion.preview import read_events
    from nightshift.config.tabular import TabularConfig
    from nightshift.data import splits
    from nightshift.runtime import strict_yaml
    from nightshift.tasks.tabular import feature_ranking

    config, last = _read_config(args)
    if not isinstance(config, TabularConfig):
        raise UserError(f"--config is of task.kind {config.task.kind}, and lines are ranked for tabular alone")
    fold = splits.plan(config, last).validation
    days = splits.Days(fold.train.first - timedelta(days=splits.buffer_days(config)), fold.test.last)
    ranking = feature_ranking.rank(
        feature_ranking.FeatureTrial(config, read_events(args.data, config, days, last), fold)
    )
    options.say(f"XGBoost, fitted on {fold.train} and judged on {fold.test}; no later day was read")
    options.say("average precision gained alone | beside the other lines | CPU an event | state of an entity")
    kept = feature_ranking.keep(ranking.lines)
    for line in ranking.lines:
        costs = f"{line.microseconds:.2f} us | {line.entity_bytes:,.0f} bytes"
        written = strict_yaml.dump_line(line.line.model_dump(mode="json", exclude_defaults=True))
        options.say(f"{'keep' if line in kept else 'drop'} | {line.alone} | {line.beside} | {costs} | {written}")
    values = (ranking.without.value, ranking.whole.value, ranking.kept.value)
    options.say("average precision without features {:.3f}, with all {:.3f}, with those to keep {:.3f}".format(*values))
    options.say("features:")
    for line in kept:
        options.say(f"- {strict_yaml.dump_line(line.line.model_dump(mode='json', exclude_defaults=True))}")
    return 0


def plan(args: argparse.Namespace) -> int:
    """Measure the online state that features need for the events of --date: bytes, events per second, p99."""
    from components.ingestion.preview import read_events
    from nightshift.data.splits import Days, buffer_days
    from nightshift.tabular.online import sizes
    from nightshift.tasks.tabular.features.planning import plan_state

    config, last = _read_config(args)
    days = Days(last - timedelta(days=buffer_days(config) + 1), last - timedelta(days=1))
    planned = plan_state(config, read_events(args.data, config, Days(days.first, last), last), days)
    for sentence in planned.sentences:
        options.say(sentence)
    sizes.require_room(config, planned.counts)
    return options.say(f"task.state_megabytes allows {config.task.state_megabytes:,} MB")


def _add_table(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--data", default=arguments.SIMULATOR, help="folder or URI of the raw events (default: %(default)s)"
    )
    options.add_config(command)
    options.add_date(command)


def _read_config(args: argparse.Namespace) -> "tuple[TableConfig, date]":
    """Return the use case and the logical date.

    Raises:
        UserError: when the use case declares no features.
    """
    from datetime import UTC, datetime

    from nightshift.config import parse
    from nightshift.config.tabular import TableConfig
    from nightshift.data.dates import parse_date
    from nightshift.data.splits import last_complete_day

    config = parse(configs.load(args.config or "fraud"))
    if not isinstance(config, TableConfig):
        raise UserError(
            f"--config is of task.kind {config.task.kind}, and only tasks of tables with windows declare features"
        )
    return config, parse_date(args.date) if args.date else last_complete_day(datetime.now(UTC))
