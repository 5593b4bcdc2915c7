"""Flags in, files out: see `components/release/__init__.py`."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime

from components.common import registry, release, splits, step, storage
from components.common.config import Config, parse
from components.common.contracts import package, tables
from components.common.contracts.release import Action, Entry, Release
from components.common.contracts.section import write_section
from components.common.contracts.state import State
from components.common.contracts.state import Target as Kind
from components.common.contracts.verdict import Verdict
from components.common.errors import UserError
from components.common.release import Place
from components.common.splits import Days
from components.release import core, section, sequential
from components.release.core import Moment
from components.release.sequential import Tally
from components.release.targets import Part, bring, places


def parser() -> step.Parser:
    """Return the step's flags."""
    return step.Parser("release", "Take a release one step further, or back.").takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        state="where things are kept (JSON)",
        run="id of the run, for the record",
        features="URI of the features manifest",
        release="release.json to write",
    )


def body(args: Namespace, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> dict[str, float | str]:
    """Judge, have the target serve what follows, change the record; a run for a past day changes nothing.

    Args:
        args: the flags.
        clock: the time, with its zone.
    """
    config, state = parse(args.config), State.parse(args.state)
    place = Place.of(state, config.name)
    before = release.read(place)
    if before is None:
        raise UserError(
            f"registry {state.registry} has no champion of {config.name!r} to release against; "
            "run training first: nightshift run"
        )
    verdicts = _verdicts(args, config, state, before)
    record = before if state.target is Kind.RECORD_ONLY else _advanced(args, config, state, verdicts, clock)
    step.log.info("%s: %s", config.name, section.headline(record))
    write_section(args.release, section.build(record, verdicts, record != before))
    record.write(args.release)
    return {"stage": record.stage, "traffic": record.challenger.traffic if record.challenger else 0.0}


def _verdicts(args: Namespace, config: Config, state: State, record: Release) -> list[Verdict]:
    if record.challenger is None:
        return []
    return [core.compare(list(_tallies(args, config, state, record)), record, config.release)]


def _tallies(args: Namespace, config: Config, state: State, record: Release) -> Iterator[Tally]:
    """Yield what the labels that have arrived since the release began say, a day at a time; new days are kept."""
    folder = _folder(state, record)
    known = set(storage.names(folder))
    table = tables.read_table(args.features)
    for day in _labeled(config, splits.parse_date(args.date), record):
        file = f"{day}.json"
        if file not in known and any(part.date == str(day) for part in table.partitions):
            storage.write_json(storage.join(folder, file), asdict(_compared(state, record, table, day)))
            known.add(file)
        if file in known:
            yield Tally(**storage.read_json(storage.join(folder, file)))


def _labeled(config: Config, newest: date, record: Release) -> Days:
    """Return the days whose labels were not known when the release began and are now.

    Those before decided that the version is released; to judge by them again would count them twice.
    """
    due = splits.plan(config, newest).labels_due
    return Days(core.began(record).astimezone(UTC).date() - (newest - due), due)


def _folder(state: State, record: Release) -> str:
    known = [*(served.sha256 for served in record.versions), core.began(record).isoformat()]
    return storage.join(state.audit, record.use_case, "releases", storage.fingerprint(known)[:16])


def _compared(state: State, record: Release, table: tables.Table, day: date) -> Tally:
    """Return what a day's labels say: the squared error of each version's score, event by event."""
    import numpy as np

    from components.tabular.inputs import Scorer

    rows = table.read([day])
    rows = rows.loc[rows["label"].notna()]
    labels, losses = rows["label"].to_numpy(dtype=np.float64), []
    for served in record.versions:
        version = registry.find(state.registry, record.use_case, served.version)
        scores = Scorer(version.uri, package.load(version.uri)).score(rows)
        losses.append(np.square(scores.astype(np.float64) - labels))
    return sequential.paired(*losses)


def _advanced(
    args: Namespace, config: Config, state: State, verdicts: Sequence[Verdict], clock: Callable[[], datetime]
) -> Release:
    target = places.of(state, config.name)
    rollout = config.release
    if target is None or not target.splits:
        rollout = rollout.model_copy(update={"shares": []})

    def decide(record: Release | None) -> Entry | None:
        assert record
        at = Moment(clock(), registry.user(), args.run)
        return _served(state, record, core.advance(record, verdicts, rollout, at), at)

    with registry.exclusive(state.registry):
        found = release.change(Place.of(state, config.name), decide)
    assert found
    return found


def _served(state: State, record: Release, entry: Entry | None, at: Moment) -> Entry | None:
    """Have the target serve a state before the record says so; a version that does not answer ends its release."""
    name = record.use_case
    target = places.of(state, name)
    if target is None:
        return entry
    try:
        bring(target, _parts(state, name, entry or record), _parts(state, name, record))
    except UserError as error:
        if record.challenger is None or (entry and entry.action is Action.ROLLED_BACK):
            raise
        entry = core.withdraw(record, at, [str(error)])
        bring(target, _parts(state, name, entry))
    return entry


def _parts(state: State, name: str, entry: Entry) -> list[Part]:
    """Return the versions that answer requests in a state of a release."""
    serving = [served for served in entry.versions if served.traffic]
    return [places.part(registry.find(state.registry, name, each.version), each.traffic) for each in serving]


if __name__ == "__main__":
    step.run(parser(), body)
