"""Ingestion's shell: find the window's days, make those partitions that are not there yet, write the manifest."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from components.ingestion import component, corrections, digests, repeats, section, sources, tally
from components.ingestion.erased import WithoutErased
from components.ingestion.sources.coverage import require_days
from components.ingestion.sources.protocol import EventSource, RawRows
from nightshift import storage, tasks
from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.contracts.erasure import ErasureList
from nightshift.contracts.section import write_section
from nightshift.contracts.tables import Partition, Table, find_partition, partition_uri, write_partition, write_table
from nightshift.data.splits import Plan
from nightshift.erasure import listing
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log, run

if TYPE_CHECKING:
    import pandas as pd

    from components.ingestion import core

# part of every partition's identity: raise it when the same rows come to another partition
SCHEMA = 8
BATCH = 30  # days that are in memory, and on the log's next line, together; one of images or texts


@dataclass(frozen=True)
class IngestionSetup:
    """What one run ingests, from where, and into which lake.

    Attributes:
        config: the use case.
        plan: the days.
        source: where their rows come from.
        lake: root of the tables.
        text_ids: identifiers that are text on some days, so that they are on all.
        repeated: day -> keys of event ids that stay on another day.
        erasures: who was erased, with the days that were renamed; None: nobody.
        audit: root of the access log; empty: what is opened is not logged.
    """

    config: Config
    plan: Plan
    source: EventSource
    lake: str
    text_ids: Collection[str] = ()
    repeated: Mapping[date, repeats.Keys] = field(default_factory=dict)
    erasures: ErasureList | None = None
    audit: str = ""


def body(context: StepContext) -> dict[str, float | str]:
    """Ingest the days that the logical date needs.

    Raises:
        UserError: when days are missing, a file is bad, or too many rows are.
    """
    args, config, lake, days = context.args, context.config, context.state.lake, context.plan
    with digests.remember(storage.join(lake, config.name, "digests.json")) as known:
        landing = storage.join(lake, config.name, "landing")
        source: EventSource = sources.connect(args.data, config, days.labels_due, known, landing)
        if erasures := listing.read(lake, config.name):
            source = WithoutErased(source, erasures, config.columns.holding(Holds.IDENTIFIER))
        _require_days(setup := IngestionSetup(config, days, source, lake, erasures=erasures, audit=context.state.audit))
        partitions = _ingest_consistently(setup)
    totals = tally.Totals.from_partitions(partitions)
    if not totals.read:
        raise UserError(f"{args.data} has no row on any of {days.events}; give another --date or --data")
    for sentence in section.empty_days(partitions):
        log.info("ingestion: %s", sentence)
    unlabeled = tally.count_unlabeled(partitions)
    corrected = corrections.compare(partitions, context.day, config.drift.corrections)
    alerts = [*section.late_labels(unlabeled), *([corrected.reason] if corrected.raised else [])]
    for sentence in alerts:
        log.warning("ingestion: %s", sentence)
    _check_shares(setup, partitions, totals)
    details = {"source": args.data, "read": totals.read, "quarantined": totals.by_rule} | dict(source.details)
    details |= {"quarantined_labels": totals.quarantined} if totals.has_labels else {}
    details |= {"unlabeled": unlabeled} if unlabeled else {}
    details |= {"signals": [corrected.model_dump(mode="json")]} if corrected.value else {}
    write_section(args.events, section.build(args.data, partitions, totals, alerts))
    table = Table("events", partitions, details)
    write_table(args.events, table)
    metadata: dict[str, float | str] = {
        "sha256": table.sha256,
        "rows": totals.read - totals.bad,
        "quarantined": totals.bad,
    }
    free = storage.free_share(lake)
    return metadata if free is None else metadata | {"lake_free_share": free}


def _require_days(setup: IngestionSetup) -> None:
    """Check that the source has every day, and say at once what else is wrong with what it has.

    Raises:
        UserError: when days are missing; with the fault of the newest one that is there.
    """
    try:
        require_days(setup.source, setup.config, setup.plan.events)
    except UserError as missing:
        raise UserError(f"{missing}{_fault_of_newest(setup)}") from None


def _fault_of_newest(setup: IngestionSetup) -> str:
    """Return what is wrong with the newest day that is there, the end of a sentence; empty when nothing is."""
    newest = next((day for day in reversed(list(setup.plan.events)) if setup.source.has(day)), None)
    if newest is None:
        return ""
    try:
        _split(setup, newest, setup.source.read(newest))
    except UserError as fault:
        return f"; besides, {fault}"
    return ""


def _ingest_consistently(setup: IngestionSetup) -> list[Partition]:
    """Find or make the partitions of the window's days, again where days only show together how they are read."""
    partitions = ingest(setup)
    if mixed := tally.mixed_ids(partitions):
        log.info("ingestion: %s: numbers on some days, text on others; treated as text on all", ", ".join(mixed))
        partitions = ingest(setup := replace(setup, text_ids=mixed))
    corrections = setup.config.source.corrections
    if again := repeats.find(partitions, corrections):
        rows, stays = sum(map(len, again.values())), "latest" if corrections else "earliest"
        log.info("ingestion: %s rows repeat an event id of another day; the %s stays", f"{rows:,}", stays)
        partitions = ingest(replace(setup, repeated=again))
    return partitions


def ingest(setup: IngestionSetup) -> list[Partition]:
    """Find the partitions of the window's days in the lake, or make them.

    Raises:
        UserError: when a file is bad.
    """
    days = list(setup.plan.events)
    batch = BATCH if setup.source.has_fixed_dtypes and not setup.config.columns.holding(Holds.FILE, Holds.TEXT) else 1
    partitions: list[Partition] = []
    for first in range(0, len(days), batch):
        partitions += _batch(setup, days[first : first + batch])
        rows = sum(part.rows for part in partitions)
        if len(partitions) % BATCH == 0 or len(partitions) == len(days):
            log.info("ingestion: %d of %d days, %s rows", len(partitions), len(days), f"{rows:,}")
    return partitions


def _batch(setup: IngestionSetup, days: list[date]) -> list[Partition]:
    """Find the partitions of some days in the lake, or make them."""
    raws = {day: setup.source.read(day) for day in days}
    keys = {day: _key(setup, day, raw) for day, raw in raws.items()}
    existing = {
        day: find_partition(partition_uri(setup.lake, setup.config.name, "events", day, keys[day])) for day in days
    }
    missing = {day: raws[day] for day, part in existing.items() if not part}
    written = {day: _write(setup, day, keys[day], missing[day], split) for day, split in _splits(setup, missing)}
    return [existing[day] or written[day] for day in days]


def _key(setup: IngestionSetup, day: date, raw: RawRows) -> str:
    rules = tasks.find(setup.config.task.kind).ingestion
    meaning = [setup.config.columns.model_dump(), setup.config.source.timezone, rules.rules(setup.config)]
    if spelled := setup.config.source.model_dump(include={"format", "columns"}, exclude_defaults=True):
        meaning.append(spelled)
    # a due label that is missing is left out as far as that is allowed
    labels_due = day <= setup.plan.labels_due and setup.config.quarantine.max_share
    made_of = [SCHEMA, raw.sha256, meaning, labels_due, sorted(setup.text_ids)]
    if day in setup.repeated:
        made_of += [setup.config.source.corrections, storage.sha256(setup.repeated[day].tobytes())]
    return listing.find_key(setup.erasures, day, storage.fingerprint(made_of))


def _splits(setup: IngestionSetup, missing: Mapping[date, RawRows]) -> "Iterator[tuple[date, core.SplitRows]]":
    """Part the good rows of some days from the bad ones, at once if that can be."""
    if setup.source.has_fixed_dtypes and len(missing) > 1:
        from components.ingestion import core

        with contextlib.suppress(UserError):  # which is raised again below, with the day
            frames = {day: _load(setup, day, raw) for day, raw in missing.items()}
            if splits := core.split_batch(frames, setup.config, setup.plan.labels_due, setup.text_ids, setup.repeated):
                yield from splits.items()
                return
    for day, raw in missing.items():
        yield day, _split(setup, day, raw)


def _split(setup: IngestionSetup, day: date, raw: RawRows) -> "core.SplitRows":
    from components.ingestion import core

    try:
        frame = _load(setup, day, raw)
        return core.split(frame, setup.config, day, day <= setup.plan.labels_due, setup.text_ids, setup.repeated)
    except UserError as error:
        raise UserError(f"{setup.source.name(day)} {error}") from None


def _load(setup: IngestionSetup, day: date, raw: RawRows) -> "pd.DataFrame":
    """Return a day's rows, once it is on the access log which files were opened for them."""
    frame = raw.load()
    if setup.audit and (opened := raw.account().opened):
        from nightshift.registry import access_log

        access_log.log_opened(setup.audit, setup.config.name, f"ingestion of {day}", opened)
    return frame


def _write(setup: IngestionSetup, day: date, key: str, raw: RawRows, split: "core.SplitRows") -> Partition:
    if absent := split.absent(setup.config.columns):
        # not where the next run looks: it reads the day again, and finds the files that have come by then
        key = storage.fingerprint([key, absent])
    quarantine = None
    if len(split.bad):
        quarantine = partition_uri(setup.lake, setup.config.name, "quarantine", day, key)
        # before the partition: what is left out of that is on record by then
        storage.write_frame(quarantine, split.bad)
    uri, as_of = partition_uri(setup.lake, setup.config.name, "events", day, key), setup.plan.events.last
    expects_labels = day <= setup.plan.labels_due and bool(setup.config.columns.holding(Holds.LABEL))
    details = {
        **split.counts,
        "unlabeled": split.unlabeled_rows if expects_labels else 0,
        "version": corrections.describe(as_of, expects_labels and not split.unlabeled_rows, split.labels),
        "replaced": corrections.find_replaced(uri, raw.sha256, as_of),
        "quarantine_uri": quarantine,
        "source_sha256": raw.sha256,
    }
    if counts := raw.account().counts:
        details["source_counts"] = dict(counts)
    repeats.write(uri, split.good["event_id"])
    return write_partition(uri, day, split.good, details)


def _check_shares(setup: IngestionSetup, partitions: list[Partition], totals: tally.Totals) -> None:
    """Stop a run in which a rule rejected too large a share of the rows read, or all rules one of a label's rows."""
    if excess := totals.find_excess(setup.config.quarantine):
        raise UserError(_with_examples(excess, setup.config, partitions))


def _with_examples(excess: tally.Excess, config: Config, partitions: list[Partition]) -> str:
    """Return what exceeds a limit with three of a rule's rows, where they all are, and what to do."""
    from components.ingestion import core

    rule, label = excess.rule, excess.label
    counts = {part.details["quarantine_uri"]: part.details["quarantined_labels"].get(rule, {}) for part in partitions}
    files = [uri for uri, labels in counts.items() if (labels if label is None else labels.get(label))]
    # each file holds at least one such row
    rows = core.examples([storage.read_frame(uri) for uri in files[:3]], config, rule, label)
    return (
        f"{excess.sentence}; for example\n  " + "\n  ".join(rows) + "\n"
        f"all rejected rows are in {files[0]}{f' and {len(files) - 1} more files' if len(files) > 1 else ''}; "
        f"fix the data{core.config_advice(rule, config)}, or raise quarantine.{excess.limit} in the config if these "
        "rows may be left out"
    )


if __name__ == "__main__":
    run(component.ingestion.parser(), body)
