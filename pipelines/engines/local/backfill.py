"""Run a pipeline for many past days, one after the other, leaving out those that are complete already."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from nightshift.contracts.state import State
from nightshift.runtime.errors import UserError
from pipelines import arguments, ir, records
from pipelines.engines.local import runs
from pipelines.engines.local.run import Observer, Run
from pipelines.engines.local.warm import ForkServer


@dataclass(frozen=True)
class BackfilledDay:
    """The outcome of one day: `complete` (nothing to do), `done`, `resumed` (and done) or `failed`."""

    date: str
    state: str
    folder: Path


def days(first: date, last: date) -> list[str]:
    """Return the days of a closed range, oldest first.

    Raises:
        UserError: when the range is empty or reaches beyond the last complete day.
    """
    if first > last:
        raise UserError(f"--from is {first} and --to is {last}; give the older day first")
    if str(last) > arguments.yesterday():
        raise UserError(f"--to is {last}; the last complete UTC day is {arguments.yesterday()}")
    return [str(first + timedelta(days=i)) for i in range((last - first).days + 1)]


def backfill(
    pipeline: ir.Pipeline,
    dates: list[str],
    options: dict[str, Any],
    state: State,
    observe: Callable[[Run], AbstractContextManager[Observer]],
    force: bool = False,
) -> Iterator[BackfilledDay]:
    """Run the days in order until one fails; the same call again resumes there.

    Args:
        pipeline: the pipeline.
        dates: logical dates.
        options: the other parameters, as for one run.
        state: where this machine keeps things; its target should neither promote nor serve.
        observe: returns the observer of a run, as a context manager that lasts as long as the run.
        force: run complete days again too.
    """
    with ForkServer() as server:
        for day in dates:
            fresh = runs.new(pipeline, options | {"date": day}, state)
            earlier = _earlier(fresh)
            complete = earlier is not None and records.read(earlier).complete
            if earlier and complete and not force:
                yield BackfilledDay(day, "complete", earlier)
                continue
            run = fresh if complete or not earlier else runs.reopen(earlier)
            done = "done" if run is fresh else "resumed"
            with runs.lock_run(run), observe(run) as observer:
                succeeded = runs.execute(runs.use_forks(run, server), observer)
            yield BackfilledDay(day, done if succeeded else "failed", run.folder)
            if not succeeded:
                return


def _earlier(fresh: Run) -> Path | None:
    """Return the folder of the newest run of the same pipeline with the same arguments.

    The target of a complete run may be another: nothing of the day is missing. A run to resume would deploy to it.
    """
    prefix = fresh.folder.name.rsplit("-", 1)[0]
    folders = records.newest_first(fresh.folder.parent, f"{prefix}-")
    return next((folder for folder in folders if _stands_for(records.read(folder), fresh)), None)


def _stands_for(record: records.Record, fresh: Run) -> bool:
    before, wanted = record.parameters, fresh.arguments
    if record.complete and "state" in wanted:
        before = before | {"state": before.get("state", {}) | {"target": wanted["state"]["target"]}}
    return before == wanted
