"""The shell of the features step: events manifest in, features manifest and missing partitions out."""

import argparse
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from components.common import storage
from components.common.config import Config, parse
from components.common.config.classes import Images
from components.common.contracts import tables
from components.common.contracts.online import Replay
from components.common.contracts.section import write_section
from components.common.contracts.state import State
from components.common.dates import parse_date
from components.common.splits import Days, plan, rows_of
from components.common.step import Parser, log, run
from components.features import core, section, workers
from components.features.job import ONE_PASS, Job
from components.tabular import frames

if TYPE_CHECKING:
    import pandas as pd

    from components.features.items import View


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


def body(args: argparse.Namespace) -> dict[str, float]:
    """Compute the days that are missing in the lake and list all days in the manifest."""
    config = parse(args.config)
    if config.columns.content:
        return _shards(args, config)
    days = plan(config, parse_date(args.date)).features
    frames.backend(args.device)  # refused now rather than after the first reading
    job = Job(config, State.parse(args.state).lake, tables.read_table(args.events), args.device)
    uris = {day: job.uri(day) for day in days}
    kept = {day: part for day, uri in uris.items() if (part := tables.find_partition(uri))}
    missing = {day: uri for day, uri in uris.items() if day not in kept}
    log.info("features: %d days are in the lake, %d to compute on %s", len(kept), len(missing), args.device)
    made = write_days(job, missing, scratch(job, args.features)) if missing else {}

    parts = [(kept | made)[day] for day in days]
    state, replay = write_online(job, parts)

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


def _shards(args: argparse.Namespace, config: Config) -> dict[str, float]:
    """Make the shards of the days that are missing in the lake and list all days in the manifest."""
    from components.classes import preprocessing
    from components.features import items

    days, events = plan(config, parse_date(args.date)).features, tables.read_table(args.events)
    job = items.Job(config, _view(config), State.parse(args.state).lake, events)
    uris = {day: job.uri(day) for day in days}
    kept = {day: part for day, uri in uris.items() if (part := tables.find_partition(uri))}
    missing = {day: uri for day, uri in uris.items() if day not in kept}
    log.info("features: %d days are in the lake, %d to make", len(kept), len(missing))
    made, seen = items.write(job, missing), preprocessing.of(config.classes).seen
    parts = [(kept | made)[day] for day in days]
    table = tables.Table("features", parts, {"events_sha256": events.sha256, "seen": seen})
    write_section(args.features, section.of_shards(table, len(made)))
    tables.write_table(args.features, table)
    return {"rows": table.rows, "computed_days": len(made)}


def _view(config: Config) -> "View":
    from components.features import images, texts

    task = config.classes
    return images.view(task) if isinstance(task, Images) else texts.view(task)


def write_online(job: Job, parts: list[tables.Partition]) -> tuple[str, Replay]:
    """Write the snapshot of the logical date, and replay it, or the newest day before it that has rows.

    Args:
        job: what features are made of.
        parts: features of the days up to the logical date; the first of them lacks a day before its past.
    """
    from components.features import online

    replayed = next((part for part in reversed(parts[1:]) if part.rows), parts[-1])
    past, day = online.Past(job.config, date.fromisoformat(parts[-1].date), job.events), parts[-1].date
    uri = online.write(past, job.lake, storage.read_frame(parts[-1].uri))
    past = past if replayed.date == day else replace(past, day=date.fromisoformat(replayed.date))
    return uri, online.replay(past, storage.read_frame(replayed.uri))


def write_days(
    job: Job, missing: dict[date, str], folder: str, at_once: int = ONE_PASS
) -> dict[date, tables.Partition]:
    """Compute and write the missing days, from the first to the last of them.

    Args:
        job: what features are made of.
        missing: day -> URI of its partition.
        folder: URI for what workers hand to each other.
        at_once: events that the kernel takes in one pass; more are sharded.
    """
    days = Days(min(missing), max(missing))
    cluster = workers.wanted()
    if not cluster and sum(job.rows(job.needed(days))) <= at_once:
        features = compute(job, days)
        return {day: job.write(uri, day, features) for day, uri in missing.items()}
    from components.features import shards

    with workers.workers(cluster, job.device) as found:
        return shards.write(job, missing, folder, found)


def compute(job: Job, days: Days) -> "pd.DataFrame":
    """Return the features of some days, computed over these days and the ones their windows reach back to."""
    events = job.backend.from_host(job.read(job.needed(days)))
    return rows_of(job.backend.to_host(core.features(events, job.config, job.backend)), days)


def scratch(job: Job, features: str) -> str:
    """Return where workers leave what others need: no other run writes there, and this one again when tried again."""
    return storage.join(job.lake, job.config.name, "scratch", storage.fingerprint(features)[:16])


if __name__ == "__main__":
    run(parser(), body)
