"""`python -m infra.costs aws dev`: what a plan would change, and what it would cost a month."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from infra.cloud import plans
from infra.costs import core
from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UnavailableError, UserError

PRICES = Path(__file__).with_name("prices.yaml")


def main() -> None:
    """Print both tables and exit: 2 for a user's mistake, 1 when Terraform failed."""
    parser = argparse.ArgumentParser(prog="infra.costs", description=__doc__)
    parser.add_argument("cloud", choices=("aws", "gcp"))
    parser.add_argument("environment", help="its file is infra/answers/<cloud>-<environment>.yaml")
    args = parser.parse_args()
    try:
        show(plans.plan(args.cloud, args.environment), table_of(args.cloud), Console())
    except (UserError, UnavailableError) as error:
        print(f"infra-plan: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UserError) else 1)


def table_of(cloud: str) -> dict[str, Any]:
    """Return what a cloud's resources cost, with its machines from the table of what steps run on."""
    table: dict[str, Any] = strict_yaml.load_document(PRICES.read_text())[cloud]
    return table | {"prices": core.with_machines(table["prices"], cloud)}


def show(plan: Mapping[str, Any], table: Mapping[str, Any], console: Console) -> None:
    """Print what a plan would change and what it would cost."""
    prices = _prices(table)
    console.print(_changes(core.changes(plan)))
    by_use = _costs_by_use(plan, prices)
    console.print(_costs(by_use))
    for line in _notes(plan, table, prices, by_use):
        console.print(line, highlight=False)


def estimate(plan: Mapping[str, Any], cloud: str) -> dict[str, str | int]:
    """Return what a plan costs a month in US dollars, idle and working, and what most of the first is for.

    Raises:
        ValueError: when something in it has no price.
    """
    by_use = _costs_by_use(plan, _prices(table_of(cloud)))
    totals = {f"{name}, USD": sum(costs.values(), core.NOTHING) for name, costs in by_use.items()}
    unknown = sorted({name for total in totals.values() for name in total.unknown})
    if unknown:
        raise ValueError(f"no price known for {', '.join(unknown)}: add it to infra/costs/prices.yaml")
    largest = [f"{group} {cost.usd:,.0f}" for group, cost in [*by_use["idle"].items()][:3]]
    return {**{name: round(total.usd) for name, total in totals.items()}, "largest parts, idle": ", ".join(largest)}


def _prices(table: Mapping[str, Any]) -> dict[str, core.Price]:
    return {name: core.Price(**fields) for name, fields in table["prices"].items()}


def _costs_by_use(plan: Mapping[str, Any], prices: Mapping[str, core.Price]) -> dict[str, dict[str, core.MonthlyCost]]:
    return {name: core.costs(core.charges(plan, use), prices) for name, use in core.PROFILES.items()}


def _changes(counted: Mapping[str, Mapping[str, int]]) -> Table:
    table = Table("type", "create", "update", "delete", title="What the plan would change")
    kinds = ("create", "update", "delete")
    for name, actions in counted.items():
        table.add_row(name, *(str(actions.get(kind, 0)) for kind in kinds))
    table.add_section()
    table.add_row("all", *(str(sum(actions.get(kind, 0) for actions in counted.values())) for kind in kinds))
    return table


def _costs(by_use: Mapping[str, Mapping[str, core.MonthlyCost]]) -> Table:
    table = Table("group", title="Estimated costs, US dollars a month")
    for name in by_use:
        table.add_column(name, justify="right")
    groups = dict.fromkeys(group for costs in [*by_use.values()][::-1] for group in costs)
    for group in groups:
        table.add_row(group, *(_amount(costs.get(group, core.NOTHING)) for costs in by_use.values()))
    table.add_section()
    table.add_row("all", *(_amount(sum(costs.values(), core.NOTHING)) for costs in by_use.values()))
    return table


def _amount(cost: core.MonthlyCost) -> str:
    if not cost.unknown:
        return f"{cost.usd:,.0f}"
    return f"unknown, at least {cost.usd:,.0f}" if cost.usd else "unknown"


def _notes(
    plan: Mapping[str, Any],
    table: Mapping[str, Any],
    prices: Mapping[str, core.Price],
    by_use: Mapping[str, Mapping[str, core.MonthlyCost]],
) -> list[str]:
    unknown = sorted({name for costs in by_use.values() for cost in costs.values() for name in cost.unknown})
    unpriced = core.find_unpriced(plan, table["free"])
    dates = sorted(price.date for price in prices.values())
    lines = [
        f"Prices of {table['region']}, from sources of {dates[0]} to {dates[-1]}: refresh infra/costs/prices.yaml.",
        f"Not in it: {table['left_out']}.",
    ]
    region = plan.get("variables", {}).get("region", {}).get("value")
    if region not in (None, table["region"]):
        lines.append(f"The plan is for {region}, whose prices differ.")
    return lines + _list_names("No price known for", unknown) + _list_names("Not estimated:", unpriced)


def _list_names(heading: str, names: list[str]) -> list[str]:
    return [f"{heading} {', '.join(names)}"] if names else []


if __name__ == "__main__":
    main()
