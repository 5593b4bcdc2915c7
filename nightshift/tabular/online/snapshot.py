"""Snapshots: made of a frame of events, written as one file of arrays, looked up, and mapped into memory.

Arrays lie one after the other, each at a multiple of 64 bytes; the manifest, written last, says where. Nothing in them
can run code.
"""

import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift import storage
from nightshift.config.tabular import TableConfig
from nightshift.contracts.online import SUFFIX, Array, Events, Snapshot, SnapshotLimits
from nightshift.contracts.preprocessing import FeatureSpec, TablePreprocessing
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError
from nightshift.tabular import windows
from nightshift.tabular.declarations import EntityGroup, decimals, entity_groups, numeric_inputs
from nightshift.tabular.online.base import Base, name_arrays
from nightshift.tabular.online.event import Id
from nightshift.tabular.online.layout import encode_value, halves, join_key

SCHEMA = 2  # part of every snapshot's key: raise it whenever the same events would give another file
ALIGNMENT = 64
FORMATS = {"int64": "q", "uint32": "I", "int8": "b"}
UNLABELED = -1

Integers = npt.NDArray[np.integer[Any]]


def describe_events(config: TableConfig, events: pd.DataFrame) -> Events:
    """Return what a raw event of a use case looks like.

    Args:
        config: the use case.
        events: canonical events, whose types say which identifiers are numbers.
    """
    columns = {role: name for role, name in config.columns.roles.items() if role != "label"}
    ids = [role for role in ("event_id", "customer", "terminal") if role in columns]
    return Events(
        columns=columns,
        integers=[role for role in ids if pd.api.types.is_integer_dtype(events[role])],
        numeric=config.columns.numeric,
        categorical=config.columns.categorical,
        timezone=config.source.timezone,
        nullable=config.nullable,
        negative_amounts=config.limits.negative_amounts,
    )


def limits(config: TableConfig) -> SnapshotLimits:
    """Return what one event of a use case may be."""
    allowed = config.limits
    return SnapshotLimits(
        largest_amount=config.largest_amount, longest_id=allowed.longest_id, days_ahead=allowed.days_ahead
    )


def arrays(events: pd.DataFrame, spec: FeatureSpec) -> dict[str, Integers]:
    """Return what the windows of later events need of some events, by name; nothing in a use case without windows.

    Args:
        events: canonical events, in order of time as the batch kernel takes them.
        spec: the features.

    Raises:
        UserError: when a number is too large to be summed exactly.
    """
    times = events["event_time"].astype("datetime64[us]").astype("int64").to_numpy()
    columns: dict[str, Integers] = {}
    rows: dict[str, Integers] = {}
    groups = entity_groups(spec)
    for number, group in enumerate(groups):
        name = name_arrays(number)
        keys, codes = _number_keys([events[column] for column in group.entity])
        order = np.argsort(codes, kind="stable")
        columns |= _name_keys(name, keys)
        columns[f"{name}_starts"] = np.searchsorted(codes[order], np.arange(len(keys[0]) + 1))
        columns[f"{name}_times"] = times[order]
        ordered = events[group.columns].take(order)
        columns |= _numbers(name, group, ordered, spec) | _values(name, group, ordered)
        if group.reads_labels:
            columns |= _labels(name, ordered["label"], columns)
        rows[f"event_rows_{number}"] = np.empty(len(order), dtype=_narrow(len(order)))
        rows[f"event_rows_{number}"][order] = np.arange(len(order))
    return columns | (_index(events["event_id"], rows) if groups else {})


def write(uri: str, content: Mapping[str, Integers], snapshot: Snapshot) -> Snapshot:
    """Write a snapshot's file, then its manifest beside it.

    Args:
        uri: the file.
        content: the arrays, by name.
        snapshot: the manifest; what concerns the file is filled in here.
    """
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder, "state")
        with local.open("wb") as file:
            layout = {name: _put(file, values) for name, values in content.items()}
            size = file.tell()
        sha256 = storage.copy(str(local), uri)
    written = snapshot.model_copy(update={"arrays": layout, "size": size, "sha256": sha256})
    written.write(f"{uri}.json")
    return written


def build_snapshot(config: TableConfig, days: Days, events: pd.DataFrame) -> tuple[dict[str, Integers], Snapshot]:
    """Return the arrays and the manifest of some days' events; `write` fills in what concerns the file.

    Args:
        config: the use case.
        days: the days of the events: the logical date, and as many before it as its windows reach back.
        events: canonical events, in order of time.
    """
    spec = config.feature_spec
    content, groups = arrays(events, spec), entity_groups(spec)
    manifest = Snapshot(
        first=days.first,
        last=days.last,
        sha256="",
        size=0,
        rows=len(events),
        entities={group.name: len(content[name_arrays(number)]) for number, group in enumerate(groups)},
        features=spec,
        events=describe_events(config, events),
        limits=limits(config),
        arrays={},
        example=None,
    )
    return content, manifest


def in_memory(config: TableConfig, days: Days, events: pd.DataFrame) -> Base:
    """Return a snapshot that was never written, see `build_snapshot`."""
    content, manifest = build_snapshot(config, days, events)
    return Base(manifest, {name: np.ascontiguousarray(values).data for name, values in content.items()})


def map_file(uri: str, folder: str) -> Base:
    """Map a snapshot into memory.

    Args:
        uri: its file.
        folder: where a copy is kept of a file that does not lie on this machine.

    Raises:
        UserError: when it is missing, or not the file that its manifest names.
    """
    snapshot = read(uri)
    path = Path(folder, f"{snapshot.sha256}{SUFFIX}")
    if not (path.exists() and storage.digest(str(path)) == snapshot.sha256):
        _fetch(uri, snapshot, path)
    view = memoryview(storage.map_file(str(path)))
    return Base(snapshot, {name: _view(view, array) for name, array in snapshot.arrays.items()})


def _fetch(uri: str, snapshot: Snapshot, path: Path) -> None:
    """Copy a snapshot's file for this user alone, over one that is damaged, too."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if storage.copy(uri, str(path)) != snapshot.sha256:
        path.unlink()
        raise UserError(
            f"{uri} is not the file that its manifest names; restore it, or move both away and run the features step "
            "again, which makes them from the events in the lake"
        )
    path.chmod(0o600)


def snapshot_uri(lake: str, use_case: str, day: date, key: str) -> str:
    """Return where a snapshot lies: `<lake>/<use case>/online/date=<day>/<key>.state`."""
    return storage.join(lake, use_case, "online", f"date={day}", f"{key[:16]}{SUFFIX}")


def find(uri: str) -> Snapshot | None:
    """Return the snapshot at a URI when it is complete, that is when its manifest has been written."""
    return read(uri) if storage.exists(f"{uri}.json") else None


def read(uri: str) -> Snapshot:
    """Return the manifest of the snapshot at a URI.

    Raises:
        UserError: when it is missing or none.
    """
    return Snapshot.read(f"{uri}.json")


def serves(snapshot: Snapshot, model: TablePreprocessing) -> bool:
    """Return whether the inputs that follow from a snapshot are those that a model takes."""
    numeric = numeric_inputs(snapshot.features, snapshot.events.numeric)
    has_same = numeric == model.numeric and {*snapshot.events.categorical} == {*model.categorical}
    return has_same and snapshot.features == model.features and {*snapshot.events.nullable} <= {*model.nullable}


def newest(lake: str, use_case: str, model: TablePreprocessing) -> str | None:
    """Return the URI of the newest snapshot that serves a model, None without one.

    Args:
        lake: root of the tables.
        use_case: its name.
        model: what the model makes of events.
    """
    return _newest(storage.join(lake, use_case, "online"), model)


def newer(uri: str, model: TablePreprocessing) -> str | None:
    """Return the URI of the newest snapshot of a later date that serves a model, None without one.

    Args:
        uri: a snapshot, beside whose date the others lie.
        model: what the model makes of events.
    """
    folder, day, _ = uri.rsplit("/", 2)
    return _newest(folder, model, day)


def newest_beside(uri: str, model: TablePreprocessing) -> str | None:
    """Return the URI of the newest snapshot that serves a model among those of another's use case, None without one."""
    return _newest(uri.rsplit("/", 2)[0], model)


def under(state: date | None, uri: str, model: TablePreprocessing) -> tuple[str, Snapshot]:
    """Return the snapshot that an online state has to lie over, and its manifest.

    Args:
        state: last day of the snapshot that it lies over now, None for a new one; it never goes back.
        uri: the snapshot that is wanted.
        model: what the model makes of events.

    Raises:
        UserError: when the snapshot has other inputs than the model.
    """
    manifest = read(uri)
    if state and state > manifest.last:
        uri = newer(uri, model) or uri
        manifest = read(uri)
    if not serves(manifest, model):
        raise UserError(f"snapshot {uri} has other inputs than the model; run the features step with its config")
    return uri, manifest


def _newest(folder: str, model: TablePreprocessing, after: str = "") -> str | None:
    for day in sorted(storage.names(folder), reverse=True):
        if day <= after:
            return None
        for name in storage.names(storage.join(folder, day)):
            uri = storage.join(folder, day, name.removesuffix(".json"))
            if name.endswith(f"{SUFFIX}.json") and serves(read(uri), model):
                return uri
    return None


def _number_keys(columns: list[pd.Series]) -> tuple[list[Integers], Integers]:
    """Return the sorted keys of one column or several, as one array or for texts as two, and each row's index."""
    values, codes = columns[0], pd.factorize(columns[0])[0]
    for column in columns[1:]:
        further = pd.factorize(column)[0]
        codes = codes * (len(column) + 1) + further
    _, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
    if len(columns) == 1 and pd.api.types.is_integer_dtype(values):
        keys = [values.to_numpy("int64")[firsts]]
    else:
        picked = [column.take(firsts).tolist() for column in columns]
        keys = _halves([join_key(parts) for parts in zip(*picked, strict=True)] if len(columns) > 1 else picked[0])
    order = np.argsort(keys[0])
    ranks = np.empty(len(order), dtype="int64")
    ranks[order] = np.arange(len(order))
    return [half[order] for half in keys], ranks[codes]


def _halves(texts: list[Id]) -> list[Integers]:
    pairs = np.array([halves(str(text)) for text in texts], dtype="int64").reshape(-1, 2)
    return [pairs[:, 0], pairs[:, 1]]


def _name_keys(name: str, keys: list[Integers]) -> dict[str, Integers]:
    return dict(zip([name, f"{name}_check"], keys, strict=False))


def _numbers(name: str, group: EntityGroup, events: pd.DataFrame, spec: FeatureSpec) -> dict[str, Integers]:
    """Return the cumulative numbers and squares of a group's events, one more than events."""
    totals = {}
    for column in group.numbers:
        power = 2 if column in group.square_columns else 1
        units = windows.whole_units(events[column], column, decimals(spec, column), np, power)
        totals[f"{name}_totals_{column}"] = _accumulate(units)
        if power > 1:
            totals[f"{name}_squares_{column}"] = _accumulate(units * units)
    return totals


def _accumulate(values: Integers) -> Integers:
    return np.concatenate([np.zeros(1, "int64"), np.cumsum(values)])


def _values(name: str, group: EntityGroup, events: pd.DataFrame) -> dict[str, Integers]:
    """Return the numbers that stand for values of a group's events."""
    values = {}
    for column in group.categories:
        codes, uniques = pd.factorize(events[column])
        values[f"{name}_values_{column}"] = np.array([encode_value(value) for value in uniques.tolist()], "int64")[
            codes
        ]
    return values


def _labels(name: str, labels: pd.Series, columns: Mapping[str, Integers]) -> dict[str, Integers]:
    known = labels.fillna(UNLABELED).to_numpy(dtype="int8")
    positive = known == 1
    before = np.concatenate([np.zeros(1, "int64"), np.cumsum(positive)])
    return {
        f"{name}_labels": known,
        f"{name}_positive_starts": before[columns[f"{name}_starts"]],
        f"{name}_positive_times": columns[f"{name}_times"][positive],
    }


def _index(ids: pd.Series, rows: dict[str, Integers]) -> dict[str, Integers]:
    """Return the sorted ids, and each one's row in every group."""
    whole = pd.api.types.is_integer_dtype(ids)
    keys = [ids.to_numpy("int64")] if whole else _halves(ids.tolist())
    order = np.argsort(keys[0], kind="stable")
    return _name_keys("events", [half[order] for half in keys]) | {name: values[order] for name, values in rows.items()}


def _narrow(rows: int) -> str:
    return "uint32" if rows < 2**32 else "int64"


def _put(file: BinaryIO, values: Integers) -> Array:
    file.write(bytes(-file.tell() % ALIGNMENT))
    array = Array(dtype=values.dtype.name, offset=file.tell(), count=len(values))
    np.ascontiguousarray(values).tofile(file)
    return array


def _view(content: memoryview, array: Array) -> memoryview:
    size = np.dtype(array.dtype).itemsize * array.count
    return content[array.offset : array.offset + size].cast(FORMATS[array.dtype])  # type: ignore[call-overload,no-any-return]
