"""The command about experiments: releases with a plan and a ledger."""

import argparse
import math
from collections.abc import Iterator

from components.release import experiments, manage
from components.release.experiments import ExperimentSource
from nightshift import registry
from nightshift.contracts.experiment import ExperimentPlan, ExperimentStatus
from nightshift.contracts.state import State
from nightshift.registry.audit_log import log_action
from nightshift.runtime.errors import UserError
from pipelines.cli import options
from pipelines.workspace import Workspace

PLANNED = ("plan", "start")  # actions that take a version


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "experiment", experiment.__doc__)
    command.add_argument("action", choices=[*PLANNED, "status", "stop"], help="action to take on the experiment")
    command.add_argument(
        "version", nargs="?", help="number of the version that `plan` and `start` are about, from `nightshift models`"
    )
    command.add_argument(
        "--budget", type=_parse_usd, metavar="USD", help="US dollars at which it is stopped (default: no limit)"
    )
    options.add_reason(command)
    options.add_json(command, "experiment_plan", "experiment_status")
    options.add_workspace(command)
    options.add_registry(command)
    options.add_use_case(command)
    command.set_defaults(command=experiment)


def experiment(args: argparse.Namespace) -> int:
    """Plan, start, show or stop an experiment: the release of a version with its expected duration and its costs."""
    is_planned = args.action in PLANNED
    if (args.version is not None) != is_planned:
        raise UserError(f"experiment {args.action} takes {'a version' if is_planned else 'no version'}")
    if args.budget is not None and not is_planned:
        raise UserError(f"experiment {args.action} takes no --budget; it is set when the experiment starts")
    state, name = options.select_state(args), options.use_case(args)
    if is_planned:
        return _plan(state, args)
    if args.action == "stop":
        with log_action(state, "experiment stop", registry.choose_name(state.registry, name), "release", args.reason):
            options.report(args, manage.abort(state, name))
    status = experiments.read_status(state, name, experiments.stamp())
    return options.print_document(status) if args.json else options.say("\n".join(_describe_status(status)))


def _plan(state: State, args: argparse.Namespace) -> int:
    if not args.version.isdecimal():
        raise UserError(f"version is {args.version!r}; give a number, as in `nightshift models`")
    source = ExperimentSource(state, options.use_case(args), Workspace(state).find_features)
    plan = experiments.make_plan(source, int(args.version), args.budget, experiments.stamp())
    if args.action == "start":
        with log_action(state, "experiment start", plan.use_case, f"version {args.version}", args.reason):
            experiments.start(state, plan)
    if args.json:
        return options.print_document(plan)
    follow = {"plan": f"nightshift experiment start {plan.challenger.version}", "start": "nightshift run release"}
    return options.say("\n".join([*describe_plan(plan), f"next       {follow[args.action]}"]))


def describe_plan(plan: ExperimentPlan) -> Iterator[str]:
    """Yield the lines of a plan."""
    pilot, horizon = plan.pilot, plan.rollout["horizon_days"]
    yield f"experiment version {plan.challenger.version} against version {plan.champion.version} of {plan.use_case}"
    gain = f"{abs(plan.measured_gain):.1%} {'less' if plan.measured_gain >= 0 else 'more'} loss"
    yield f"known      {gain} in {pilot.rows:,} observations of {pilot.first} .. {pilot.last}"
    yield f"duration   {_describe_duration(plan)}"
    if plan.detectable_gain is None:
        yield f"detects    no gain within {horizon} days: there are too few labels"
    else:
        yield f"detects    a gain of {plan.detectable_gain:.1%} within {horizon} days, in 4 of 5 cases"
    harm = f"within {plan.harm_days} days" if plan.harm_days else f"after up to {horizon} days"
    yield f"harm       a version that loses {plan.harm:.0%} more is rolled back {harm}, in 4 of 5 cases"
    yield f"budget     {'no limit' if plan.budget_usd is None else f'{plan.budget_usd:,.2f} USD'}"


def _describe_duration(plan: ExperimentPlan) -> str:
    if plan.median_days is None:
        return f"undecided after {plan.rollout['horizon_days']} days, if the gain is that one; the champion stays then"
    likely = f"{plan.likely_days} in 4 of 5 cases" if plan.likely_days else "the horizon in some"
    return f"about {plan.median_days} days, {likely}; the {plan.slowest_test} decides last"


def _describe_status(status: ExperimentStatus) -> Iterator[str]:
    yield from describe_plan(status.plan)
    share = "" if status.is_over else f", {status.traffic:.0%} of the requests"
    yield f"state      {status.stage.replace('_', ' ')} after {status.days:.1f} days{share}"
    yield from (f"           {reason}" for reason in status.reasons)
    for cost in status.costs:
        usd = "no price" if cost.usd is None else f"{cost.usd:,.2f} USD"
        yield f"cost       {cost.item}: {usd} ({cost.unit}: {cost.quantity:,g})"
    unknown = ", and what has no price" if any(cost.usd is None for cost in status.costs) else ""
    yield f"           together {status.usd:,.2f} USD{unknown}"


def _parse_usd(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"is {text!r}; give US dollars above 0, such as 50")
    return value
