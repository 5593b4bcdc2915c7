"""The shell of the features step: events manifest in, features manifest and missing partitions out."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from components.common import storage
from components.common.config import Config, parse
from components.common.contracts import tables
from components.common.contracts.online import Replay
from components.common.contracts.section import write_section
from components.common.contracts.state import State
from components.common.splits import Days, buffer_days, parse_date, plan, rows_of
from components.common.step import Parser, log, run
from components.features import core, section
from components.tabular import frames

if TYPE_CHECKING:
    import pandas as pd


def parser() -> Parser:
    """Return the step's flags."""
    step = Parser("features", "compute the trailing-window features of the days a run needs").takes(
        config="the use case's config (JSON)",
        date="the logical date, YYYY-MM-DD",
        state="where things are kept (JSON)",
        events="URI of the events manifest",
        features="URI of the features manifest to write",
    )
    return step.takes_device()


@dataclass(frozen=True)
class Job:
    """What the features of every day are made of."""

    config: Config
    lake: str
    events: tables.Table
    backend: frames.Backend

    @property
    def buffer(self) -> timedelta:
        """How far back the oldest window of a day reaches."""
        return timedelta(days=buffer_days(self.config))

    def uri(self, day: date) -> str:
        """Return where a day's partition lies: its name is a hash of the events and settings it is made from.

        The device is not part of it, CPU and GPU give the same bits.
        """
        past = [self.events.partition(past).sha256 for past in Days(day - self.buffer, day)]
        settings = self.config.model_dump(
            include={
                "task": {"windows_days", "amount_decimals"},
                "label_delay_days": True,
                "columns": {"numeric", "categorical"},
            }
        )
        key = storage.fingerprint([core.SCHEMA, settings, past])
        return tables.partition_uri(self.lake, self.config.name, "features", day, key)


def body(args: argparse.Namespace) -> dict[str, float]:
    """Compute the days that are missing in the lake and list all days in the manifest."""
    config = parse(args.config)
    days = plan(config, parse_date(args.date)).features
    job = Job(config, State.parse(args.state).lake, tables.read_table(args.events), frames.backend(args.device))
    uris = {day: job.uri(day) for day in days}
    kept = {day: part for day, uri in uris.items() if (part := tables.find_partition(uri))}
    missing = {day: uri for day, uri in uris.items() if day not in kept}
    log.info("features: %d days are in the lake, %d to compute on %s", len(kept), len(missing), args.device)
    made = dict(write_days(job, missing)) if missing else {}

    parts = [(kept | made)[day] for day in days]
    state, replay = write_online(job, days.last, parts[-1])

    table = tables.Table(
        "features",
        parts,
        {
            "numeric": core.numeric_inputs(config),
            "categorical": config.columns.categorical,
            "events_sha256": job.events.sha256,
            "online": state,
            "replay": replay.model_dump(mode="json"),
        },
    )
    write_section(args.features, section.build(table, len(made), args.device))
    tables.write_table(args.features, table)
    return {"rows": table.rows, "computed_days": len(made), "online_differing": replay.differing}


def write_online(job: Job, day: date, part: tables.Partition) -> tuple[str, Replay]:
    """Write the snapshot of the logical date, and replay that day; see `online.write`."""
    from components.features import online

    return online.write(online.Past(job.config, day, job.events), job.lake, storage.read_frame(part.uri))


def write_days(job: Job, missing: dict[date, str]) -> Iterator[tuple[date, tables.Partition]]:
    """Compute and write the missing days, date -> URI; all in one pass, from the first to the last of them."""
    frame = compute(job, Days(min(missing), max(missing)))
    for day, uri in missing.items():
        part = tables.write_partition(uri, day, rows_of(frame, Days(day, day)), {})
        log.info("features: %s, %d rows", day, part.rows)
        yield day, part


def compute(job: Job, days: Days) -> "pd.DataFrame":
    """Return the features of some days, computed over these days and the ones their windows reach back to."""
    columns = [*job.config.columns.roles, *job.config.columns.numeric, *job.config.columns.categorical]
    events = job.events.read(Days(days.first - job.buffer, days.last), columns)
    frame = job.backend.to_host(core.features(job.backend.from_host(events), job.config, job.backend))
    # cudf hands a column with nulls back as float64
    return rows_of(frame, days).astype({"label": "Int8"})


if __name__ == "__main__":
    run(parser(), body)
