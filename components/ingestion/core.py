"""Rows by day: under canonical names and types, the good parted from the bad, the good held to a schema.

A day of few rows costs tens of milliseconds, nearly all of them in the calls. So days that are read alike are read at
once, and each is what it would be alone.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pandera.pandas as pa

from components.ingestion.records import MALFORMED
from components.ingestion.repeats import Keys
from components.ingestion.repeats import keys as event_keys
from components.ingestion.sources.protocol import FAULT
from components.ingestion.tally import CORRECTED
from nightshift import tasks
from nightshift.config import Config
from nightshift.config.columns import Columns, Holds
from nightshift.runtime.printable import printable
from nightshift.tasks import columns as read
from nightshift.tasks import spelling
from nightshift.tasks.base.ingestion import IngestionTask, LabelsTask

Frame = TypeVar("Frame", pd.DataFrame, pd.Series)

REASON = "quarantine_reason"
# reason of a row whose event id an earlier day has, which keeps it
REPEATED = "duplicate_id_of_earlier_day"
NO_REPEATS: Mapping[date, Keys] = {}
CONTENT = (Holds.FILE, Holds.TEXT)  # what a row holds as a whole
NUMBERS = (Holds.AMOUNT, Holds.NUMBER)
# what a rule rejects may be spelled otherwise
SPELLINGS = {
    MALFORMED: "source.format.separator, quote and escape",
    "bad_amount": "source.format.decimal and thousands",
    "bad_number": "source.format.decimal and thousands",
    "unparsable_time": "source.format.times",
    "unknown_label": "source.format.positive and negative",
}
LINE_SHOWN = 24  # characters of a malformed line, half of them masked
ID_DTYPES: dict[str, Any] = {"integer": "int64", "text": str}


@dataclass(frozen=True)
class SplitRows:
    """A day's rows after the rules.

    Attributes:
        good: the events partition, sorted by event_time and event_id.
        bad: the rejected rows, every column of the user's as text, and `quarantine_reason`, the rule that rejected it.
        good_labels: what each of the good rows is counted as, "" without a label; index of `good`.
        bad_labels: what each of the bad ones is counted as, "" without a label that can be read; index of `bad`.
        id_types: `integer` or `text` for each of event_id, customer and terminal that is given; {} without rows.
    """

    good: pd.DataFrame
    bad: pd.DataFrame
    good_labels: pd.Series
    bad_labels: pd.Series
    id_types: dict[str, str]

    @property
    def labels(self) -> dict[str, int]:
        """Label -> rows read, without labels that no row has."""
        return _counts(pd.concat([self.good_labels, self.bad_labels]))

    @property
    def unlabeled_rows(self) -> int:
        """Good rows without a label."""
        return int((self.good_labels == "").sum())

    @property
    def rejected_rows(self) -> dict[str, int]:
        """Rule -> rows it rejected, without rules that rejected none."""
        return {str(rule): int(rows) for rule, rows in self.bad[REASON].value_counts().sort_index().items()}

    @property
    def quarantined_labels(self) -> dict[str, dict[str, int]]:
        """Rule -> label -> rows it rejected."""
        return {str(rule): _counts(labels) for rule, labels in self.bad_labels.groupby(self.bad[REASON])}

    @property
    def counts(self) -> dict[str, Any]:
        """What a partition says of its rows."""
        return {
            "read": len(self.good) + len(self.bad),
            "labels": self.labels,
            "quarantined": self.rejected_rows,
            "quarantined_labels": self.quarantined_labels,
            "id_types": self.id_types,
        }

    def absent(self, columns: Columns) -> list[bytes]:
        """Return the names of the files that are not there, column by column in order of rows."""
        missing = self.bad[self.bad[REASON] == "missing_file"]
        return [name for column in columns.holding(Holds.FILE).values() for name in missing[column]]


def _counts(labels: pd.Series) -> dict[str, int]:
    return {str(label): int(rows) for label, rows in labels.value_counts().sort_index().items()}


def label_names(typed: pd.DataFrame, config: Config) -> pd.Series:
    """Return what rows are counted as, such as `positive` or the name of a class; "" where there is no label."""
    names = pd.Series("", typed.index, dtype=object)
    for role in config.columns.holding(Holds.LABEL):
        names = _labels(config).names(typed[role]).astype(object).where(typed[role].notna(), "")
    return names


def rejoin(good: pd.DataFrame, bad: pd.DataFrame | None, config: Config, id_types: dict[str, str]) -> SplitRows:
    """Return a day's rows as `split` has returned them before some were taken out.

    Args:
        good: rows of the events partition.
        bad: rows of its quarantine, None without one.
        config: the use case that they were ingested by.
        id_types: as they were.
    """
    if bad is None:
        bad = pd.DataFrame(columns=[*config.columns.names, REASON], dtype="string")
    bad_labels = label_names(_read_columns(bad, config, ()), config)
    has_rows = bool(len(good) or len(bad))
    return SplitRows(good, bad, label_names(good, config), bad_labels, id_types if has_rows else {})


def split(
    raw: pd.DataFrame,
    config: Config,
    day: date,
    labels_due: bool,
    text_ids: Collection[str] = (),
    repeats: Mapping[date, Keys] = NO_REPEATS,
) -> SplitRows:
    """Part a day's good rows from its bad ones; no row is lost.

    Args:
        raw: the day's rows under the user's column names, any dtypes.
        config: the use case.
        day: the UTC day that the rows are said to be of.
        labels_due: whether a missing label is an error by now.
        text_ids: which of event_id, customer and terminal stay text, even when all are numbers.
        repeats: day -> sorted keys of event ids whose rows stay on another day.

    Raises:
        UserError: when there are no rows, columns are missing, or a column holds nothing of its type.
    """
    read.require(raw, config.columns, config.source.may_be_empty(day))
    days, due = np.full(len(raw), day, "datetime64[D]"), np.full(len(raw), labels_due)
    typed = _read_columns(raw, config, text_ids)
    due &= ~_find_late(raw, days, config)
    rows = ParsedRows(raw, typed, days, due, _find_repeated(typed["event_id"], days, repeats))
    _check_types(raw, rows.typed, config, bool(due.all()))
    return dict(_split_days(rows, config, [day]))[day]


def split_batch(
    frames: Mapping[date, pd.DataFrame],
    config: Config,
    labels_due: date,
    text_ids: Collection[str] = (),
    repeats: Mapping[date, Keys] = NO_REPEATS,
) -> dict[date, SplitRows] | None:
    """Part the good rows of several days from the bad ones, at once.

    Args:
        frames: days in order -> their rows under the user's column names, of the same dtypes on all days.
        config: the use case.
        labels_due: the last day on which a missing label is an error by now.
        text_ids, repeats: as for `split`.

    Returns:
        what `split` returns for each day; None where a day has to be read alone, since its identifiers are numbers
        and those of another day are text, or since nothing in one of its columns can be read.

    Raises:
        UserError: when columns are missing.
    """
    raw = pd.concat(frames.values(), ignore_index=True)
    read.require(raw, config.columns, may_be_empty=all(map(config.source.may_be_empty, frames)))
    days = np.repeat(np.array(list(frames), "datetime64[D]"), [len(frame) for frame in frames.values()])
    typed = _read_columns(raw, config, text_ids)
    due = (days <= np.datetime64(labels_due)) & ~_find_late(raw, days, config)
    rows = ParsedRows(raw, typed, days, due, _find_repeated(typed["event_id"], days, repeats))
    return dict(_split_days(rows, config, frames)) if _alike(rows, config.columns) else None


@dataclass(frozen=True)
class ParsedRows:
    """Rows of one day or more, in order of days.

    Attributes:
        raw: under the user's column names.
        typed: under canonical names, null where a value cannot be read; index of `raw`.
        days: the UTC day that each is said to be of, datetime64[D] (n,).
        due: whether a missing label is an error by now, bool (n,); on a day whose labels are late it is none.
        repeated: whether another day's row is to stay instead, which has the same event id, bool (n,).
    """

    raw: pd.DataFrame
    typed: pd.DataFrame
    days: npt.NDArray[np.datetime64]
    due: npt.NDArray[np.bool_]
    repeated: npt.NDArray[np.bool_]


def _alike(rows: ParsedRows, columns: Columns) -> bool:
    """Return whether each of the days, alone, would be read as all of them are."""
    whole = pd.DataFrame({role: read.whole(rows.typed[role]) for role in columns.holding(Holds.IDENTIFIER)})
    readable = rows.typed[[*columns.holding(Holds.TIME, *NUMBERS)]].notna()
    labels = rows.typed[[*columns.holding(Holds.LABEL)]].notna() | ~rows.due[:, None]
    kinds = whole.groupby(rows.days).all()
    all_readable = readable.join(labels).groupby(rows.days).any().all(axis=None)
    return bool(all_readable and kinds.nunique().le(1).all())


def _split_days(rows: ParsedRows, config: Config, days: Iterable[date]) -> Iterator[tuple[date, SplitRows]]:
    """Yield what becomes of the rows of each day, be there none."""
    columns = config.columns
    reasons = _reasons(rows, config)
    rejected = reasons.notna()
    ids = columns.holding(Holds.IDENTIFIER)
    types = {role: "integer" if rows.typed[role].dtype == "Int64" else "text" for role in ids}
    bad = rows.raw.loc[rejected]
    contents = columns.holding(*CONTENT).values()
    if bad.empty:  # as on most days: a table may have thousands of columns
        bad = bad.astype("string")
    else:
        bad = pd.DataFrame({name: _raw(bad[name]) if name in contents else read.texts(bad[name]) for name in bad})
    bad[REASON] = reasons[rejected].astype(str)
    bad_labels = label_names(rows.typed.loc[rejected], config)
    good = schema(config, types, bool(rows.due.all())).validate(_good(rows.typed.loc[~rejected], types, columns))
    good_labels = label_names(good, config)
    good_days, bad_days = good["event_time"].to_numpy().astype("datetime64[D]"), rows.days[rejected]
    for day in map(np.datetime64, days):
        own_types = types if day in rows.days else {}
        own_good, own_bad = _rows_of_day(day, good, good_days), _rows_of_day(day, bad, bad_days)
        counted = _rows_of_day(day, good_labels, good_days), _rows_of_day(day, bad_labels, bad_days)
        yield day.item(), SplitRows(own_good, own_bad, *counted, own_types)


def _rows_of_day(day: np.datetime64, frame: Frame, days: npt.NDArray[np.datetime64]) -> Frame:
    """Return a day's rows of a frame that is in order of days."""
    return frame.iloc[np.searchsorted(days, day) : np.searchsorted(days, day, "right")].reset_index(drop=True)


def _raw(contents: pd.Series) -> pd.Series:
    """Return images or texts as bytes, since what is wrong with some of them is that they are no text."""
    return contents.map(lambda content: content.encode(errors="surrogatepass") if isinstance(content, str) else content)


def schema(config: Config, id_types: dict[str, str], labels_due: bool) -> pa.DataFrameSchema:
    """Return the contract of an events partition: these columns, in this order, and no others."""
    finite = pa.Check(np.isfinite, name="finite")  # checks the numbers that are not missing
    # pandera takes one unit of time for another
    microseconds = pa.Check(lambda times: times.dtype == "datetime64[us]", name="microseconds")
    kinds = {
        Holds.TIME: pa.Column("datetime64[us]", microseconds),
        Holds.AMOUNT: pa.Column("float64", [pa.Check.ge(config.least_amount), finite]),
        Holds.FILE: pa.Column(object),
        Holds.TEXT: pa.Column(str),
        Holds.NUMBER: pa.Column("float64", finite),
        Holds.CATEGORY: pa.Column(str),
    }
    own = {role: pa.Column(ID_DTYPES[name]) for role, name in id_types.items()}
    own |= {role: _labels(config).schema(config, not labels_due) for role in config.columns.holding(Holds.LABEL)}
    own |= {role: pa.Column("float64", finite, nullable=True) for role in config.nullable}
    return pa.DataFrameSchema(
        {column.role: own.get(column.role) or kinds[column.holds] for column in config.columns.read},
        checks=pa.Check(_named_once, name="an event_id once a day"),
        strict=True,
        ordered=True,
    )


def _named_once(good: pd.DataFrame) -> pd.Series:
    days = good["event_time"].dt.floor("D")
    return ~pd.DataFrame({"day": days, "event_id": good["event_id"]}).duplicated()


def examples(bad: Iterable[pd.DataFrame], config: Config, rule: str, label: str | None = None) -> list[str]:
    """Return the first three rows that a rule rejected, one text a row, identifiers masked.

    Args:
        bad: frames as in `Split.bad`.
        config: the use case.
        rule: the rule.
        label: only rows that are counted as this.
    """
    columns = config.columns
    masked = columns.holding(Holds.IDENTIFIER).values()
    rejected = pd.concat([frame[frame[REASON] == rule] for frame in bad], ignore_index=True)
    if label is not None:
        rejected = rejected[label_names(_read_columns(rejected, config, ()), config) == label]
    # further numbers are many, and of interest where one of them is at fault
    shown = columns.roles | (columns.holding(Holds.NUMBER) if rule == "bad_number" else {})
    if rule == MALFORMED:
        return [f"{_mask(text[:LINE_SHOWN])} ({len(text)} characters)" for text in rejected[MALFORMED].head(3)]
    rows = rejected[[*shown.values()]].head(3).astype(object)
    return [
        ", ".join(f"{name}={_mask(value) if name in masked else _show(value)}" for name, value in row.items())
        for row in rows.to_dict("records")
    ]


def config_advice(rule: str, config: Config) -> str:
    """Return what to change in the config where the rows that a rule rejects are right, the end of a sentence."""
    setting, remedy = SPELLINGS.get(rule), config.REMEDIES.get(rule)
    if rule == MALFORMED:
        return f" (they have more or fewer fields than the header, or stand between stray quotes), or set {setting}"
    spelling = f", or set {setting} in the config, which `nightshift config guess FILE` finds" if setting else ""
    return f"{spelling}, or {remedy}" if remedy else spelling


def _mask(value: Any) -> str:
    return _show(value) if pd.isna(value) else f"{printable(str(value)[: len(str(value)) // 2])}***"


def _show(value: Any) -> str:
    if isinstance(value, bytes):
        return f"({len(value):,} bytes)"
    return "(missing)" if pd.isna(value) else printable(str(value))[:40]


def _read_columns(raw: pd.DataFrame, config: Config, text_ids: Collection[str]) -> pd.DataFrame:
    """Return the canonical columns, null where a value cannot be read."""
    readers: dict[Holds, Callable[[pd.Series], pd.Series]] = {
        Holds.TIME: partial(spelling.times, source=config.source),
        Holds.AMOUNT: partial(spelling.numbers, spelled=config.source.format),
        Holds.FILE: read.files,
        Holds.TEXT: read.bodies,
        Holds.LABEL: lambda column: _labels(config).read(column, config),
        Holds.NUMBER: partial(spelling.numbers, spelled=config.source.format),
        # nothing is a category too, and its name is the empty text, as in a CSV file
        Holds.CATEGORY: read.canonical,
    }
    as_ids: dict[str, Callable[[pd.Series], pd.Series]] = {
        role: partial(read.ids, as_text=role in text_ids) for role in config.columns.holding(Holds.IDENTIFIER)
    }
    columns = {
        column.role: (as_ids.get(column.role) or readers[column.holds])(raw[column.name])
        for column in config.columns.read
    }
    return pd.DataFrame(columns, raw.index)  # at once: a column after the other would be in a block of its own


def _labels(config: Config) -> LabelsTask:
    return tasks.find(config.task.kind).labels


def _rules(config: Config) -> IngestionTask:
    return tasks.find(config.task.kind).ingestion


def _check_types(raw: pd.DataFrame, typed: pd.DataFrame, config: Config, labels_due: bool) -> None:
    columns = config.columns
    read.require_some(raw[columns.event_time], typed["event_time"], read.TIME)
    # before they are due, a few bad labels may be the only ones
    for role, name in columns.holding(Holds.LABEL).items() if labels_due else ():
        read.require_some(raw[name], typed[role], _labels(config).kind)
    for role, name in columns.holding(*NUMBERS).items():
        read.require_some(raw[name], typed[role], read.NUMBER)


def _reasons(rows: ParsedRows, config: Config) -> pd.Series:
    """Return for each row the first rule that rejects it, or null."""
    columns, rules = config.columns, _rules(config)
    typed = rows.typed
    faults, amounts = rules.faults(typed, config), [*columns.holding(Holds.AMOUNT)]
    broken = {
        MALFORMED: rows.raw.get(MALFORMED, pd.Series(None, rows.raw.index, dtype=object)).notna(),
        "inexact_value": _inexact(rows, columns),
        "missing_key": typed[[*columns.holding(Holds.IDENTIFIER)]].isna().any(axis=1),
        "unparsable_time": typed["event_time"].isna(),
        "outside_day": typed["event_time"].to_numpy().astype("datetime64[D]") != rows.days,
        "bad_amount": ~_finite(typed[amounts]) | (typed[amounts] < config.least_amount).any(axis=1),
        "over_limit": faults == "over_limit",
        "bad_number": _bad_numbers(rows, config),
    }
    for role, name in columns.holding(Holds.LABEL).items():
        labeled = read.has_value(rows.raw[name])
        broken |= {"unknown_label": labeled & typed[role].isna(), "missing_label": ~labeled & rows.due}
    reasons = pd.Series(None, typed.index, dtype=object)
    for rule, where in reversed(broken.items()):
        reasons[where] = rule
    reasons = reasons.fillna(faults)
    if FAULT in rows.raw:
        reasons = rows.raw[FAULT].astype(object).fillna(reasons)
    # where rows of a day share an id or content, the first good one stays
    contents = [role for role in columns.holding(*CONTENT) if role not in rules.shared_contents]
    for role in ("event_id", *contents):
        sound = reasons.isna()
        repeated = typed.loc[sound, [role]].assign(day=rows.days[sound]).duplicated()
        reasons[repeated.index[repeated]] = "duplicate_id" if role == "event_id" else "duplicate_content"
    for role in contents:
        sound = reasons.isna()
        for _, own in typed.loc[sound, role].groupby(rows.days[sound]):
            reasons[own.index[rules.near_duplicates(own, config)]] = "near_duplicate"
    # last, so that no row comes in for one that goes out
    reasons[reasons.isna() & rows.repeated] = CORRECTED if config.source.corrections else REPEATED
    return reasons


def _find_repeated(
    ids: pd.Series, days: npt.NDArray[np.datetime64], repeats: Mapping[date, Keys]
) -> npt.NDArray[np.bool_]:
    repeated = np.zeros(len(ids), bool)
    for day, keys in repeats.items():
        own = (days == np.datetime64(day)) & ids.notna().to_numpy()
        repeated[own] = np.isin(event_keys(ids[own]), keys)
    return repeated


def _find_late(raw: pd.DataFrame, days: npt.NDArray[np.datetime64], config: Config) -> npt.NDArray[np.bool_]:
    """Return which rows are of a day whose labels are late: more are missing than may be left out, bool (n,)."""
    late = np.zeros(len(raw), bool)
    for name in config.columns.holding(Holds.LABEL).values():
        missing = ~read.has_value(raw[name])
        late |= (missing.groupby(days).transform("mean") > config.quarantine.max_share).to_numpy(bool)
    return late


def _inexact(rows: ParsedRows, columns: Columns) -> pd.Series:
    """Return which rows have an identifier or a category that is there and cannot be told from others."""
    inexact = pd.Series(False, rows.raw.index)
    for role, name in columns.holding(Holds.IDENTIFIER).items():
        unread = rows.typed.index[rows.typed[role].isna()]
        inexact[unread] |= read.has_value(rows.raw.loc[unread, name])
    return inexact | rows.typed[[*columns.holding(Holds.CATEGORY)]].isna().any(axis=1)


def _bad_numbers(rows: ParsedRows, config: Config) -> pd.Series:
    """Return which rows have a number that cannot be read, or none in a column that needs one."""
    numbers = config.columns.holding(Holds.NUMBER)
    nullable = set(config.nullable)
    bad = ~_finite(rows.typed[[name for name in numbers if name not in nullable]])
    missing = ~np.isfinite(rows.typed[config.nullable].to_numpy())
    for number in np.flatnonzero(missing.any(axis=0)):
        role, unread = config.nullable[number], rows.typed.index[missing[:, number]]
        bad[unread] |= read.has_value(rows.raw.loc[unread, numbers[role]])
    return bad


def _finite(numbers: pd.DataFrame) -> pd.Series:
    """Return which rows have a finite number in every column."""
    return pd.Series(np.isfinite(numbers).all(axis=1), numbers.index)


def _good(typed: pd.DataFrame, id_types: dict[str, str], columns: Columns) -> pd.DataFrame:
    dtypes: dict[Hashable, Any] = {role: ID_DTYPES[name] for role, name in id_types.items()}
    dtypes |= dict.fromkeys(columns.holding(Holds.TEXT, Holds.CATEGORY), str)
    return typed.astype(dtypes).sort_values(["event_time", "event_id"], kind="stable", ignore_index=True)
