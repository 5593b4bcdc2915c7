"""The command that notifies people of nights."""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from nightshift import storage
from nightshift.config import parse
from nightshift.config.notify import NightEvent
from nightshift.contracts.notification import Notification
from nightshift.notify.delivery import DeliveryOutcome, Notifier
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import USER_ERROR
from pipelines import configs
from pipelines.cli import options
from pipelines.cli.kubeflow import add_server, open_server


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "notify", notify.__doc__)
    command.add_argument(
        "--workspace", default=".", help="folder, s3://... or gs://... with the outbox (default: the current folder)"
    )
    options.add_config(command)
    command.add_argument("--audit", help="URI of the audit root, which holds the outbox (default: the workspace's)")
    command.add_argument("--test", action="store_true", help="send each receiver a test message (default: send none)")
    command.add_argument(
        "--kubeflow",
        action="store_true",
        help="report failed runs on Kubeflow too, and deliver what is due of every use case there, whose config and "
        "audit root its runs have (default: of --config)",
    )
    add_server(command)
    command.set_defaults(command=notify, service_account="")


def notify(args: argparse.Namespace) -> int:
    """Deliver pending notifications of nights to the receivers of a config, or test the receivers."""
    outcomes = list(_deliver_of_kubeflow(args) if args.kubeflow else _deliver_of_config(args))
    for outcome in outcomes:
        _report(outcome)
    errors = [outcome.error for outcome in outcomes if outcome.error]
    return USER_ERROR if any(isinstance(error, UserError) for error in errors) else int(bool(errors))


def _deliver_of_config(args: argparse.Namespace) -> Iterator[DeliveryOutcome]:
    config = parse(configs.load(args.config or configs.DEFAULT))
    if not config.notify.receivers:
        raise UserError(f"notify.receivers of {config.name!r} is empty; name a receiver's variable in the config")
    notifier = Notifier(_locate_audit(args), config.notify)
    yield from notifier.test(_make_test(config.name)) if args.test else notifier.deliver()


def _deliver_of_kubeflow(args: argparse.Namespace) -> Iterator[DeliveryOutcome]:
    from pipelines.engines.kubeflow.failures import add_failures

    if args.test:
        raise UserError("--test tests the receivers of one config; give --config in place of --kubeflow")
    for notifier in add_failures(open_server(args), lambda line: print(f"nightshift: {line}", file=sys.stderr)):
        yield from notifier.deliver()


def _locate_audit(args: argparse.Namespace) -> str:
    if args.audit:
        return str(args.audit)
    is_uri = "://" in args.workspace
    return storage.join(args.workspace, "audit") if is_uri else options.state(args).audit


def _make_test(use_case: str) -> Notification:
    return Notification(
        event=NightEvent.HELD,
        use_case=use_case,
        pipeline="test",
        subject="test",
        run="test",
        logical_date=datetime.now(UTC).date(),
        sentence="This is a test of `nightshift notify`; nothing has happened.",
        link="",
    )


def _report(outcome: DeliveryOutcome) -> None:
    if outcome.error:
        print(f"nightshift: {outcome.error}", file=sys.stderr)
    waiting = " (quiet hours, the digest interval, or another process)" if outcome.pending and not outcome.error else ""
    options.say(f"{outcome.receiver}   {outcome.delivered} delivered, {outcome.pending} pending{waiting}")
