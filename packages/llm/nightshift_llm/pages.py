"""The page of a gateway's keys in `nightshift ui`: what they have used, and how near they are to their budgets."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from nightshift import storage
from nightshift.contracts.section import Bars, Block, Fact, Row, TableColumn
from nightshift_llm.contracts.spending import GatewaySpending, KeyUsage
from nightshift_llm.gateway.keys import NANODOLLARS, ApiKey, parse_keys
from nightshift_llm.gateway.ledger_file import LedgerRow, read_report
from pipelines.ui.screen import PagePanel, Screen, WebPage, make_row, make_table, shorten
from pipelines.workspace import Workspace

# environment variables: the files of the gateway's --ledger and --keys
LEDGER, KEYS = "NIGHTSHIFT_LEDGER", "NIGHTSHIFT_KEYS"
UNNAMED = f"{LEDGER} names the file of a gateway's --ledger, {KEYS} that of its --keys."
DAYS, LISTED = 30, 200
NEAR = 0.8  # share of a budget from which it is worth a look


def read(_workspace: Workspace, _params: Mapping[str, str]) -> GatewaySpending:
    """Return what a gateway's keys have used on its newest days, nothing where no ledger is named.

    Raises:
        UserError: when a file cannot be read.
    """
    ledger, keys = os.environ.get(LEDGER), os.environ.get(KEYS)
    if not ledger:
        return GatewaySpending(usage=[])
    known = parse_keys(keys, storage.read_bytes(keys)).values() if keys else []
    return summarize(read_report(ledger), {key.name: key for key in known})


def summarize(rows: Iterable[LedgerRow], keys: Mapping[str, ApiKey]) -> GatewaySpending:
    """Return the usage of keys by day, of all versions together.

    Args:
        rows: of a ledger.
        keys: name -> key, with its limits.
    """
    groups: dict[tuple[str, str], list[LedgerRow]] = defaultdict(list)
    for row in rows:
        groups[row.day, row.key].append(row)
    newest = sorted({day for day, _ in groups})[-DAYS:]
    usage = [_add_up(day, name, own, keys.get(name)) for (day, name), own in sorted(groups.items()) if day in newest]
    return GatewaySpending(usage=usage)


def show(spending: GatewaySpending) -> Screen:
    """Return the page."""
    days = sorted({usage.day for usage in spending.usage})
    if not days:
        return Screen(title="Gateway", lead="No request is counted.", reasons=[UNNAMED])
    today = [usage for usage in spending.usage if usage.day == days[-1]]
    near = [usage for usage in today if usage.used is not None and usage.used >= NEAR]
    facts = [
        Fact(label="Keys in use", value=len(today), format="count"),
        Fact(label="Tokens", value=sum(usage.tokens for usage in today), format="count"),
        Fact(label="US dollars", value=f"{sum(usage.usd for usage in today):,.2f}"),
    ]
    return Screen(
        title="Gateway",
        lead=f"{days[-1]}, UTC: the newest day with a request",
        tone="bad" if near else "neutral",
        reasons=[f"{shorten(usage.key)} has used {usage.used:.0%} of its budget." for usage in near],
        facts=facts,
        panels=[PagePanel("Keys", [_tabulate(today)]), PagePanel("Days", [*_draw(spending.usage, days)])],
    )


def _add_up(day: str, name: str, rows: Sequence[LedgerRow], key: ApiKey | None) -> KeyUsage:
    tokens = sum(row.prompt_tokens + row.completion_tokens + row.estimated_tokens for row in rows)
    usd = sum(row.nanodollars for row in rows) / NANODOLLARS
    limits = (key.tokens_per_day, key.dollars_per_day) if key else (None, None)
    shares = [spent / limit for spent, limit in zip((tokens, usd), limits, strict=True) if limit]
    return KeyUsage(
        key=name,
        day=date.fromisoformat(day),
        requests=sum(row.requests for row in rows),
        tokens=tokens,
        usd=usd,
        tokens_per_day=limits[0],
        dollars_per_day=limits[1],
        used=max(shares, default=None),
    )


def _tabulate(usage: Sequence[KeyUsage]) -> Block:
    columns = [
        TableColumn(title="Key"),
        TableColumn(title="Of its budget", format="percent", has_bars=True, limit=1.0),
        TableColumn(title="Tokens", format="count"),
        TableColumn(title="Limit", format="count"),
        TableColumn(title="US dollars", format="plain"),
        TableColumn(title="Limit", format="plain"),
        TableColumn(title="Requests", format="count"),
    ]
    ranked = sorted(usage, key=lambda own: (-(own.used or 0), -own.tokens))[:LISTED]
    return make_table("", columns, [_row(own) for own in ranked], "")


def _row(usage: KeyUsage) -> Row:
    limits = usage.tokens_per_day, usage.dollars_per_day
    return make_row([usage.key, usage.used, usage.tokens, limits[0], usage.usd, limits[1], usage.requests])


def _draw(usage: Sequence[KeyUsage], days: Sequence[date]) -> Iterator[Block]:
    heights = [float(sum(own.tokens for own in usage if own.day == day)) for day in days]
    yield Bars(title="Tokens by day", labels=[str(day) for day in days], heights=heights)


PAGE = WebPage("/gateway", read, show, "Gateway")
