"""Flags in, files out: see `components/drift/__init__.py`."""

import functools
import operator
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from components.common import splits, step, storage
from components.common.config import Config, parse
from components.common.config.policy import Drift as Limits
from components.common.contracts import drift, package, tables, verdict
from components.common.contracts.artifact import Window
from components.common.contracts.drift import Promise
from components.common.contracts.package import ModelPackage
from components.common.contracts.section import Block, write_section
from components.common.dates import parse_date
from components.common.errors import UserError
from components.common.splits import Days
from components.drift import section

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from components.drift import classes
    from components.drift.core import Due, Found


@dataclass(frozen=True)
class Job:
    """What is compared on which day."""

    config: Config
    day: date
    features: tables.Table
    scores: tables.Table
    model: ModelPackage
    reference: "pd.DataFrame"

    @property
    def days(self) -> splits.Watched:
        """The newest days, and those whose labels are due."""
        return splits.watched(self.config, self.day, self.model.lineage.train.last)

    @property
    def rows_a_day(self) -> float:
        """What the training days held, on average, but for those that need no rows."""
        train, is_closed = self.model.lineage.train, self.config.source.is_closed
        return train.rows / max(1, sum(not is_closed(day) for day in Days(train.first, train.last)))

    @property
    def rows(self) -> int | None:
        """What the newest day holds, None where that is nothing and may be."""
        return None if self.is_empty(self.day) else self.features.partition(self.day).rows

    @property
    def labelled(self) -> list[date]:
        """The days whose labels are due, but for empty ones, of which none are to come."""
        return [day for day in self.days.labelled if not self.is_empty(day)]

    def is_empty(self, day: date) -> bool:
        """Return whether a day has no rows, and may have none."""
        return not self.features.partition(day).rows and self.config.source.may_be_empty(day)


@dataclass(frozen=True)
class Newest:
    """The rows that are compared, and how many there are."""

    rows: int
    batches: "Iterator[pd.DataFrame]"


# limits, how far columns have moved, Evidently's page, and the signals
Compared = tuple[Limits, list[drift.Column], str, list[drift.Signal]]


def parser() -> step.Parser:
    """Return the step's flags."""
    return step.Parser("drift", "Compare the newest days with the model's reference, write a verdict.").takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        features="URI of the features manifest",
        scores="URI of what the scoring step has written",
        drift="URI of the folder to write",
    )


def body(args: Namespace) -> dict[str, Any]:
    """Compare, write the page, the figures, then the verdict."""
    from components.drift import core

    config, day = parse(args.config), parse_date(args.date)
    features = tables.read_table(args.features)
    scores = tables.read_table(storage.join(args.scores, "scores.json"))
    model = package.load(args.scores)
    job = Job(config, day, features, scores, model, package.read_reference(args.scores))
    window = job.days.newest
    rows = sum(features.partition(day).rows for day in window)
    limits, columns, page, signals = (_contents if model.has_classes else _rows)(job, rows)
    judged = core.judge(model.sha256, columns, signals, limits)
    before = model.lineage.reference or model.lineage.train
    step.log.info("%s: %s", judged.decision, " ".join(judged.reasons))
    place = storage.join(args.drift, "evidently.html")
    storage.write_bytes(place, page.encode())
    found = drift.Drift(
        model_sha256=model.sha256,
        model_version=scores.details["version"],
        promised=scores.details["promised"],
        window=Window(first=window.first, last=window.last, rows=rows),
        reference=Window(first=before.first, last=before.last, rows=len(job.reference)),
        drifted_share=signals[0].value,
        columns=columns,
        signals=signals,
    )
    found.write(storage.join(args.drift, drift.FILE))
    write_section(args.drift, section.build(judged, found, limits, place, _extremes(job, args.scores)))
    judged.write(storage.join(args.drift, verdict.FILE))
    return {
        "drifted_share": found.drifted_share,
        "psi": {column.name: column.psi for column in columns},
        "effect": {signal.name: signal.value for signal in signals if signal.value is not None},
        "raised": {signal.name: float(signal.raised) for signal in signals},
    }


def _rows(job: Job, rows: int) -> Compared:
    """Compare the newest rows of a table."""
    from components.drift import core

    numeric, limits = [*job.model.tabular.numeric, core.SCORE], job.config.drift
    reference = job.reference[[*job.model.tabular.columns, core.SCORE]]
    columns, page = _moved(job, Newest(rows, _scored(job, job.days.newest)), reference, numeric, limits)
    return limits, columns, page, list(core.signals(columns, _found(job), limits))


def _contents(job: Job, rows: int) -> Compared:
    """Compare the newest images or texts."""
    from components.drift import classes

    if job.model.lineage.reference is None:
        raise UserError("the model's sample has no embeddings, which drift compares; train again: nightshift run")
    reference = job.reference[classes.columns(job.model)]
    limits = classes.beyond_chance(job.config.drift, reference, rows)
    newest = Newest(rows, _classified(job, job.days.newest))
    columns, page = _moved(job, newest, reference, classes.numeric(job.model), limits)
    return limits, columns, page, list(classes.signals(columns, _found_of_classes(job), limits))


def _moved(
    job: Job, newest: Newest, reference: "pd.DataFrame", numeric: list[str], limits: Limits
) -> "tuple[list[drift.Column], str]":
    """Return how far the columns of the newest rows have moved, and Evidently's page."""
    from components.drift import core, evidently_report

    window, rows = job.days.newest, newest.rows
    step.log.info("comparing %d rows of %s with the model's reference of %d", rows, window, len(reference))
    sample: list[pd.DataFrame] = []
    kept = _sampled(newest.batches, -(-rows // evidently_report.ROWS) or 1, sample)
    columns = core.compare(reference, _some(kept, window), numeric, limits)
    return columns, evidently_report.render(reference, _joined(sample)[reference.columns], numeric, limits)


def _classified(job: Job, days: Days) -> "Iterator[pd.DataFrame]":
    """Yield what is known of the days' images or texts and what they were taken for."""
    from components.drift import classes

    for day in days:
        yield storage.read_frame(job.scores.partition(day).uri, classes.columns(job.model))


def _found_of_classes(job: Job) -> "classes.Found":
    from components.drift import classes

    def embedded(day: date) -> "npt.NDArray[np.floating]":
        frame = storage.read_frame(job.scores.partition(day).uri, [package.EMBEDDING])
        return classes.stacked(frame[package.EMBEDDING])

    promised, days = job.scores.details["promised"], job.labelled
    counted = [_right(job, day) for day in days]
    rows, right, *others = (sum(each) for each in zip(*counted, strict=True)) if counted else (0, 0)
    unlearned = dict(zip(job.model.lineage.unlearned, others, strict=False))
    return classes.Found(
        rows=job.rows,
        expected=job.rows_a_day,
        due=classes.Due(counted[-1][0], rows, right, unlearned) if counted else None,
        promised=Promise(**promised) if promised else None,
        reference=classes.stacked(job.reference[package.EMBEDDING]),
        days=[day for day in map(embedded, job.days.newest) if len(day)],
    )


def _extremes(job: Job, model: str) -> list[Block]:
    """Return the newest day's least and most usual images or texts, nothing of other rows or too few."""
    if not job.model.has_classes:
        return []
    from components.classes import shards
    from components.drift import classes, unusual

    columns = ["event_id", classes.PREDICTED, package.EMBEDDING]
    rows = storage.read_frame(job.scores.partition(job.day).uri, columns).dropna(subset=package.EMBEDDING)
    before, now = (classes.stacked(frame[package.EMBEDDING]) for frame in (job.reference, rows))
    if min(len(before), len(now)) < classes.FEWEST:
        return []
    is_text = isinstance(job.model.classes, package.Texts)
    show = functools.partial(unusual.texts, package.read_tokenizer(model, job.model)) if is_text else unusual.pictures
    return unusual.blocks(rows, shards.mapped(job.features.partition(job.day)), (before, now), show)


def _right(job: Job, day: date) -> tuple[int, ...]:
    """Return a day's rows with labels, those of them whose class was predicted, and those of each unlearned class."""
    import numpy as np

    known = storage.read_frame(job.features.partition(day).uri, ["event_id", "label"])
    taken = storage.read_frame(job.scores.partition(day).uri, ["event_id", "predicted"])
    assert np.array_equal(known["event_id"], taken["event_id"]), f"the scores of {day} are not of its features"
    labeled = known["label"].notna()
    unlearned = [int((known["label"] == name).sum()) for name in job.model.lineage.unlearned]
    return int(labeled.sum()), int((known["label"] == taken["predicted"])[labeled].sum()), *unlearned


def _scored(job: Job, days: Days) -> "Iterator[pd.DataFrame]":
    """Yield the days' rows in batches: the model's inputs, `label` and `score`."""
    import numpy as np

    from components.drift.core import SCORE

    columns = ["event_id", *job.model.tabular.columns, "label"]
    for day in days:
        scores = storage.read_frame(job.scores.partition(day).uri, ["event_id", SCORE])
        for rows in storage.read_batches(job.features.partition(day).uri, columns):
            now, scores = scores.iloc[: len(rows)], scores.iloc[len(rows) :]
            assert np.array_equal(now["event_id"], rows["event_id"]), f"the scores of {day} are not of its features"
            yield rows.assign(**{SCORE: now[SCORE].to_numpy()})


def _some(batches: "Iterable[pd.DataFrame]", days: Days) -> "Iterator[pd.DataFrame]":
    """Pass batches on; there has to be a row."""
    rows = 0
    for batch in batches:
        rows += len(batch)
        yield batch
    if not rows:
        raise UserError(f"the features of {days} have no rows, so there is nothing to compare; check the date")


def _sampled(batches: "Iterable[pd.DataFrame]", every: int, sample: "list[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
    """Pass batches on, and keep one row in every so many."""
    seen = 0
    for batch in batches:
        # a copy, since a view would keep the whole batch
        sample.append(batch.iloc[-seen % every :: every].copy())
        seen += len(batch)
        yield batch


def _joined(frames: "list[pd.DataFrame]") -> "pd.DataFrame":
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


def _found(job: Job) -> "Found":
    """Return what signals are made of, beside the columns."""
    from components.drift.core import Found

    promised, days = job.scores.details["promised"], job.labelled
    return Found(
        rows=job.rows,
        expected=job.rows_a_day,
        due=_due(job, days) if days else None,
        promised=Promise(**promised) if promised else None,
        positives=job.reference[job.reference["label"] == 1],
        numeric=job.model.tabular.numeric,
    )


def _due(job: Job, days: list[date]) -> "Due":
    """Return what the labels say that are due."""
    from components.drift.core import Due

    parts = [_known(job, day) for day in days]
    ranks = functools.reduce(operator.add, (ranks for ranks, _ in parts))
    newest, _ = parts[-1]
    return Due(int(newest.sum()), ranks, _joined([positives for _, positives in parts]))


def _known(job: Job, day: date) -> "tuple[npt.NDArray[np.int64], pd.DataFrame]":
    """Return how a day's rows with labels rank, and those of them that are positives."""
    import numpy as np

    from components.drift import core

    ranks = np.zeros((2, core.SCORE_BINS), np.int64)
    positives = [job.reference.iloc[:0]]
    for batch in _scored(job, Days(day, day)):
        rows = batch[batch["label"].notna()]
        ranks += core.rank(rows["label"].to_numpy("int8"), rows[core.SCORE].to_numpy())
        positives.append(rows[rows["label"] == 1])
    # pandas warns where it cannot tell the types of frames without rows
    return ranks, _joined([part for part in positives if len(part)] or positives[:1])


if __name__ == "__main__":
    step.run(parser(), body)
