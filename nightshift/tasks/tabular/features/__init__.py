"""Trailing-window features of a table's rows, and the online state that repeats them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import pandas as pd

from nightshift import storage
from nightshift.config.tabular import TableConfig
from nightshift.contracts import tables
from nightshift.contracts.feature_shard import FeatureShard
from nightshift.contracts.online import Replay
from nightshift.contracts.section import Row, TableBlock, TableColumn
from nightshift.data.splits import Days, rows_of
from nightshift.runtime.step import log
from nightshift.tabular import frames
from nightshift.tabular.online import sizes
from nightshift.tasks.base import features as base
from nightshift.tasks.base.features import FeatureDetails, FeatureSetup
from nightshift.tasks.tabular.features import core, reuse, shards, workers
from nightshift.tasks.tabular.features.job import ONE_PASS, TableFeatureJob

SHOWN = 5


@dataclass(frozen=True)
class WindowFeatures(base.DailyFeatures):
    """Features over trailing windows.

    Attributes:
        job: what they are made of.
        scratch: URI for what workers hand to each other.
        dask: the cluster of the workers; empty for this process.
    """

    job: TableFeatureJob
    scratch: str
    dask: str

    def uri(self, day: date) -> str:
        return self.job.uri(day)

    def write(self, missing: dict[date, str]) -> dict[date, tables.Partition]:
        self._require_room(missing)
        return write_days(self.job, missing, self.scratch, self.dask)

    def write_shard(self, missing: dict[date, str], number: int, count: int) -> FeatureShard:
        """Compute the windows of some entities, and leave them in the scratch folder."""
        if not missing:
            return FeatureShard(missing={})
        self._require_room(missing)
        shard = FeatureShard(missing=missing, known=reuse.find_columns(self.job, missing))
        shards.write_part(self._divide(shard, count), number, count)
        return shard

    def join(self, missing: dict[date, str], computed: Sequence[FeatureShard]) -> dict[date, tables.Partition]:
        """Put the windows that the shards have left beside their events; compute them where that cannot be."""
        written = self._join(missing, computed) if missing else {}
        shards.remove(self.scratch)
        return written

    def _join(self, missing: dict[date, str], computed: Sequence[FeatureShard]) -> dict[date, tables.Partition]:
        shard, *others = computed
        # another run may have written days between two shards
        if any(other != shard for other in others) or not missing.keys() <= shard.missing.keys():
            log.warning("features: the shards do not agree on the missing days, so this process computes them")
            return self.write(missing)
        layout = self._divide(shard, len(computed))
        if not layout.is_computed:
            log.warning("features: windows that the shards have computed are gone, so this process computes them")
            return self.write(missing)
        return shards.join_parts(layout, missing)

    def _divide(self, shard: FeatureShard, count: int) -> shards.Layout:
        job = replace(self.job, known=shard.known)
        return shards.divide(job, shard.missing, self.scratch, count, shards.Sizes())

    def _require_room(self, missing: dict[date, str]) -> None:
        last = max(missing)
        events = sum(self.job.rows(self.job.extend_back(Days(last, last))))
        sizes.require_room(self.job.config, sizes.count_least(events, self.job.config.feature_spec))

    def details(self, parts: list[tables.Partition]) -> FeatureDetails:
        state, replay = write_online(self.job, parts)
        numeric, categorical = core.numeric_inputs(self.job.config), self.job.config.columns.categorical
        return FeatureDetails(
            details={
                "numeric": numeric,
                "categorical": categorical,
                "online": state,
                "replay": replay.model_dump(mode="json"),
            },
            sentences=[_describe_replay(replay)],
            blocks=[_inputs({"numeric": numeric, "categorical": categorical})],
            metrics={"online_differing": replay.differing},
        )


class FeaturesTask(base.FeaturesTask):
    """Features over trailing windows."""

    def features(self, setup: FeatureSetup[TableConfig]) -> WindowFeatures:
        frames.backend(setup.device)  # refused now rather than after the first reading
        return WindowFeatures(
            TableFeatureJob(setup.config, setup.lake, setup.events, setup.device), setup.scratch, setup.dask
        )


def write_online(job: TableFeatureJob, parts: list[tables.Partition]) -> tuple[str, Replay]:
    """Write the snapshot of the logical date, and replay it, or the newest day before it that has rows.

    Args:
        job: what features are made of.
        parts: features of the days up to the logical date; the first of them lacks a day before its past.
    """
    from nightshift.tasks.tabular.features import online

    replayed = next((part for part in reversed(parts[1:]) if part.rows), parts[-1])
    past, day = online.Past(job.config, date.fromisoformat(parts[-1].date), job.events), parts[-1].date
    uri = online.write(past, job.lake, storage.read_frame(parts[-1].uri))
    past = past if replayed.date == day else replace(past, day=date.fromisoformat(replayed.date))
    return uri, online.replay(past, storage.read_frame(replayed.uri))


def write_days(
    job: TableFeatureJob, missing: dict[date, str], folder: str, dask: str = "", at_once: int = ONE_PASS
) -> dict[date, tables.Partition]:
    """Compute and write the missing days, from the first to the last of them.

    Args:
        job: what features are made of.
        missing: day -> URI of its partition.
        folder: URI for what workers hand to each other.
        dask: the cluster of the workers; empty for this process.
        at_once: events that the kernel takes in one pass; more are sharded.
    """
    days = Days(min(missing), max(missing))
    job = replace(job, known=reuse.find_columns(job, missing))
    log.info("features: %s", _describe_work(job, days))
    if not dask and sum(job.rows(job.extend_back(days))) <= at_once:
        features = compute(job, days)
        return {day: job.write(uri, day, features) for day, uri in missing.items()}
    with workers.workers(dask, job.device) as pool:
        return shards.write(job, missing, folder, pool)


def compute(job: TableFeatureJob, days: Days) -> pd.DataFrame:
    """Return the features of some days, computed over these days and the ones their windows reach back to."""
    events = job.backend.from_host(job.read(job.extend_back(days)))
    return rows_of(job.backend.to_host(core.features(events, job.config, job.backend, job.groups)), days)


def _describe_work(job: TableFeatureJob, days: Days) -> str:
    declared = len(job.config.feature_spec.features)
    rows = sum(job.rows(job.extend_back(days)))
    computed = f"{declared - len(job.known)} of {declared} columns over windows are computed from {rows:,} events"
    return f"{computed}; the others are read from other partitions" if job.known else computed


def _describe_replay(replay: Replay) -> str:
    message = f"Replayed online, {replay.differing:,} of {replay.rows:,} events of {replay.day} differ"
    return f"{message} by up to {replay.largest:.3g}, in {replay.worst}." if replay.differing else f"{message}."


def _inputs(kinds: dict[str, Sequence[str]]) -> TableBlock:
    rows = [Row(cells=[name, kind]) for kind, names in kinds.items() for name in names]
    columns = [TableColumn(title="Input"), TableColumn(title="Type")]
    return TableBlock(title=f"{len(rows)} model inputs", columns=columns, rows=rows, shown=SHOWN)
