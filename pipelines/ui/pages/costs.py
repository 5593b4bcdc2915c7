"""Costs: what runs have cost by day, use case and step."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from nightshift.contracts.browsing import Spending, SpendingTotal
from nightshift.contracts.listings import RunCost
from nightshift.contracts.section import Bars, Block, Fact, TableColumn, Text
from nightshift.runtime.errors import UserError
from pipelines.ui.screen import PageLink, PagePanel, Screen, make_href, make_row, make_table, shorten
from pipelines.workspace import Workspace, read_cost

DAYS, LONGEST = 30, 365
SPANS = (7, 30, 90, 365)  # days
LISTED = 50


@dataclass(frozen=True)
class SpendingItem:
    """Seconds and US dollars of a run or step; the latter None without a price."""

    name: str
    seconds: float
    usd: float | None


def read(workspace: Workspace, params: Mapping[str, str]) -> Spending:
    """Return what the runs of the newest days have cost.

    Raises:
        UserError: when there is no run yet, or `days` is no number of days.
    """
    runs, days = workspace.index.runs(), _parse_days(params.get("days", str(DAYS)))
    if not runs:
        raise UserError(f"no run in {workspace.state.runs} yet; `nightshift run` makes one")
    last = runs[0].started.date()
    first = last - timedelta(days=days - 1)
    recent = [run for run in runs if run.started.date() >= first]
    costs = [(run.started.date(), cost) for run, cost in workspace.index.derive_all(recent, read_cost)]
    return summarize(first, last, costs)


def summarize(first: date, last: date, costs: Iterable[tuple[date, RunCost]]) -> Spending:
    """Return the totals of runs, each with the day of its start."""
    known = list(costs)
    by_day = _add_up(SpendingItem(str(day), cost.seconds, cost.usd) for day, cost in known)
    steps = [SpendingItem(step.step, step.seconds or 0.0, step.usd) for _, cost in known for step in cost.steps]
    return Spending(
        first=first,
        last=last,
        by_day=sorted(by_day, key=lambda total: total.name),
        by_use_case=_rank(_add_up(SpendingItem(cost.use_case, cost.seconds, cost.usd) for _, cost in known)),
        by_step=_rank(_add_up(steps)),
    )


def show(spending: Spending) -> Screen:
    """Return the page of costs."""
    usd = sum(total.usd for total in spending.by_day)
    unpriced = sum(total.unpriced for total in spending.by_day)
    facts = [
        Fact(label="US dollars", value=f"{usd:,.2f}", note=f"{unpriced} runs without a price" if unpriced else ""),
        Fact(label="Time in steps", value=sum(total.seconds for total in spending.by_day), format="seconds"),
        Fact(label="Runs", value=sum(total.count for total in spending.by_day), format="count"),
    ]
    hours = not usd
    panels = [
        PagePanel("By day", [_draw_days(spending.by_day, hours), _tabulate("Day", list(reversed(spending.by_day)))]),
        PagePanel(
            "By use case", [_tabulate("Use case", spending.by_use_case, lambda name: make_href("use-cases", name))]
        ),
        PagePanel("By step", [_tabulate("Step", spending.by_step)]),
    ]
    return Screen(
        title="Costs",
        lead=f"Runs that started from {spending.first} to {spending.last}, UTC",
        links=[PageLink(f"{days} days", make_href("costs", days=days)) for days in SPANS],
        facts=facts,
        panels=panels,
    )


def _add_up(items: Iterable[SpendingItem]) -> list[SpendingTotal]:
    groups: dict[str, list[SpendingItem]] = defaultdict(list)
    for item in items:
        groups[shorten(item.name)].append(item)
    return [
        SpendingTotal(
            name=name,
            count=len(group),
            seconds=round(sum(item.seconds for item in group), 3),
            usd=round(sum(item.usd or 0.0 for item in group), 6),
            unpriced=sum(item.usd is None for item in group),
        )
        for name, group in groups.items()
    ]


def _rank(totals: list[SpendingTotal]) -> list[SpendingTotal]:
    return sorted(totals, key=lambda total: (-total.usd, -total.seconds))[:LISTED]


def _draw_days(totals: list[SpendingTotal], in_hours: bool) -> Block:
    """Return the bars of days, in hours where nothing has a price."""
    if not totals:
        return Text(sentences=["No run of these days has a summary."])
    heights = [total.seconds if in_hours else total.usd for total in totals]
    title = "Time in steps by day" if in_hours else "US dollars by day"
    form = "seconds" if in_hours else "plain"
    return Bars(title=title, labels=[total.name for total in totals], heights=heights, format=form)


def _tabulate(title: str, totals: list[SpendingTotal], link: Callable[[str], str] = lambda _: "") -> Block:
    columns = [
        TableColumn(title=title),
        TableColumn(title="US dollars", format="plain", has_bars=True),
        TableColumn(title="Time", format="seconds", has_bars=True),
        TableColumn(title="Runs", format="count"),
        TableColumn(title="Without a price", format="count"),
    ]
    rows = [
        make_row(
            [
                total.name,
                total.usd if total.unpriced < total.count else None,
                total.seconds,
                total.count,
                total.unpriced,
            ],
            link(total.name),
        )
        for total in totals[:LISTED]
    ]
    return make_table("", columns, rows, "Nothing.")


def _read_usd(total: SpendingTotal) -> float | None:
    return total.usd if total.unpriced < total.count else None


def _parse_days(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= LONGEST:
        raise UserError(f"days is {shorten(text)!r}; give a number from 1 to {LONGEST}")
    return int(text)
