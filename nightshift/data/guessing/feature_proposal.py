"""The features that a table suggests: whose events repeat, which pairs do, and how finely times are known.

No label is looked at. On two sets of card payments no family of features was best on both, and all together were nearly
as good as the best on each: what the columns allow is proposed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from nightshift.config import parse
from nightshift.config.features import parse_duration
from nightshift.config.tabular import TabularConfig
from nightshift.data.aggregations import HALF_LIVES
from nightshift.data.guessing.roles import Roles
from nightshift.data.splits import buffer_days
from nightshift.tabular import windows
from nightshift.tabular.online import sizes

REPEATED = 0.05  # share of the events that have one of the same entity before them, below which windows are empty
FINER = 1.2  # as many pairs as entities at least: a person's gender makes no pair with the person
FEWEST_VALUES = 3  # of a category that makes pairs
MOST_PAIRS = 3
SHORT = ["1h", "6h"]
DECAYS = ["decayed_count(1h)", "decayed_count(6h)", "decayed_count(1d)"]
ROOM = 0.1  # share of the largest sum that squares of amounts may come to, since later days may have larger ones

Line = dict[str, Any]


@dataclass(frozen=True)
class EventTable:
    """The events that features are proposed for.

    Attributes:
        events: `event_time`, and what there is of `customer`, `terminal`, `amount` and categories; n rows.
        decimals: of amounts.
        longest: the longest window, such as 30d.
        inputs: names of columns, which no feature may have.
    """

    events: pd.DataFrame
    decimals: int
    longest: str
    inputs: frozenset[str] = frozenset()

    @property
    def has_hours(self) -> bool:
        """Whether times say more than a day; midnight of a zone with clock changes has two."""
        times = self.events["event_time"].dropna()
        return int((times - times.dt.floor("D")).nunique()) > 2

    @property
    def amount(self) -> str | None:
        """The column that is averaged."""
        return "amount" if "amount" in self.events else None

    @property
    def sums_squares(self) -> bool:
        """Whether squares of amounts can be summed exactly."""
        units = self.events["amount"].astype(float) * 10**self.decimals
        return float((units**2).sum()) < windows.LARGEST_SUM * windows.SAFE * ROOM

    def share_repeated(self, entity: Sequence[str]) -> float:
        """Return the share of the events with one of the same entity before them in the longest window."""
        known = self.events.dropna(subset=[*entity]).sort_values("event_time", kind="stable")
        since = known.groupby([*entity], sort=False, observed=True)["event_time"].diff()
        return float((since <= _parse_length(self.longest)).sum() / max(len(self.events), 1))

    def count(self, entity: Sequence[str]) -> int:
        """Return how many different ones of an entity there are."""
        return len(self.events[[*entity]].drop_duplicates())


@dataclass(frozen=True)
class ProposedFeatures:
    """The section `features`.

    Attributes:
        lines: of the declaration; none: the schema's own.
        reason: a sentence.
        costs: what each line takes, for a comment.
    """

    lines: list[Line] = field(default_factory=list)
    reason: str = ""
    costs: list[str] = field(default_factory=list)


NO_FEATURES = ProposedFeatures()


def propose(config: dict[str, Any], roles: Roles) -> ProposedFeatures:
    """Return features for a config as in a YAML file, whose payments' windows say how far back the table reaches."""
    lengths = config["features"][0].get("windows") or ["1d"]
    inputs = frozenset([*roles.columns.get("numeric", []), *roles.columns.get("categorical", [])])
    table = EventTable(roles.events, roles.decimals, lengths[-1], inputs)
    lines = list_lines(table, lengths)
    return ProposedFeatures(lines, _describe(table, lines), [_describe_cost(config, line, table) for line in lines])


def list_lines(table: EventTable, lengths: Sequence[str]) -> list[Line]:
    """Return the lines of a declaration.

    Args:
        table: the events.
        lengths: of the windows, in days.
    """
    lines = _describe_calendar(table)
    entities = [name for name in ("customer", "terminal") if name in table.events]
    repeated = [name for name in entities if table.share_repeated([name]) >= REPEATED]
    for name in repeated:
        lines += _describe_entity(name, table, [*(SHORT if table.has_hours else []), *lengths])
        lines.append({"entity": name, "functions": ["positive_count", "positive_rate"], "windows": list(lengths)})
    if repeated == ["customer", "terminal"]:
        line = {"entity": "customer", "functions": ["distinct"], "column": "terminal", "windows": list(lengths)}
        lines.append(line)
    return [*lines, *(_describe_pair(pair, table) for pair in _find_pairs(table, repeated))]


def _describe_calendar(table: EventTable) -> list[Line]:
    parts = ["hour", "day_of_week", "is_weekend", "is_night"] if table.has_hours else ["day_of_week", "is_weekend"]
    free = [part for part in parts if part not in table.inputs]
    return [{"calendar": free}] if free else []


def _describe_entity(name: str, table: EventTable, lengths: Sequence[str]) -> Iterator[Line]:
    """Yield what is usual for an entity: how often, of which amounts, how long ago."""
    amount, longest = table.amount, [table.longest]
    mean: Line = {"functions": ["count", "mean"], "column": amount} if amount else {"functions": ["count"]}
    yield {"entity": name} | mean | {"windows": list(lengths)}
    if amount:
        functions = ["max", "ratio", *(["std", "zscore"] if table.sums_squares else [])]
        yield {"entity": name, "functions": functions, "column": amount, "windows": longest}
    if table.has_hours:
        decays = [text for text in DECAYS if _reaches(text) <= _parse_length(table.longest)]
        yield {"entity": name, "functions": ["seconds_since_last", *decays], "windows": longest}


def _reaches(decay: str) -> pd.Timedelta:
    """Return how far back a decayed count looks."""
    return HALF_LIVES * _parse_length(decay.partition("(")[2].rstrip(")"))


def _parse_length(window: str) -> pd.Timedelta:
    return pd.Timedelta(microseconds=parse_duration(window))


def _find_pairs(table: EventTable, repeated: Sequence[str]) -> list[list[str]]:
    """Return the pairs of an entity with another or a category that repeat and say more than the entity alone."""
    others = [
        str(name) for name in table.events if name not in ("event_time", "event_id", "label", "customer", "amount")
    ]
    if "customer" not in repeated:
        return []
    categories = [name for name in others if name != "terminal" and table.count([name]) >= FEWEST_VALUES]
    categories.sort(key=lambda name: -table.count([name]))
    candidates = [["customer", name] for name in [*({"terminal"} & {*others}), *categories]]
    is_finer = table.count(["customer"]) * FINER
    pairs = [pair for pair in candidates if table.count(pair) >= is_finer and table.share_repeated(pair) >= REPEATED]
    return pairs[:MOST_PAIRS]


def _describe_pair(pair: Sequence[str], table: EventTable) -> Line:
    functions = ["count", *(["mean"] if table.amount else []), *(["seconds_since_last"] if table.has_hours else [])]
    column = {"column": table.amount} if table.amount else {}
    return {"entity": list(pair), "functions": functions} | column | {"windows": [table.longest]}


def _entity(line: Line) -> list[str]:
    return [line["entity"]] if isinstance(line["entity"], str) else list(line["entity"])


def _describe(table: EventTable, lines: Sequence[Line]) -> str:
    """Return why these features are proposed, a sentence."""
    entities = list(dict.fromkeys(tuple(_entity(line)) for line in lines if "entity" in line))
    shares = [f"{' x '.join(entity)} on {table.share_repeated(entity):.0%}" for entity in entities]
    repeats = f"of the events, one of the same {', '.join(shares)}, follows another within {table.longest}"
    return (
        f"Features by what repeats: {repeats if shares else 'nothing, so the calendar alone'}. Beside each line stands "
        "the online state that it takes alone; `nightshift features rank` measures what it gains."
    )


def _describe_cost(config: dict[str, Any], line: Line, table: EventTable) -> str:
    """Return how many features a line declares, and the online state that it takes alone."""
    parsed = parse(config | {"features": [line]})
    assert isinstance(parsed, TabularConfig)
    spec = parsed.feature_spec
    features = len(spec.features) + len(spec.calendar)
    if not spec.features:
        return f"{features} features, no state"
    times = table.events["event_time"]
    newest = table.events[times > times.max() - pd.Timedelta(days=buffer_days(parsed) + 1)]
    (size,) = sizes.measure_entities(spec, sizes.EventCounts.from_frame(newest, spec))
    return f"{features} features, {size.per_entity:,.0f} bytes a {' x '.join(_entity(line))}"
