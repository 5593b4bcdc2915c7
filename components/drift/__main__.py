"""Flags in, files out: see `components/drift/__init__.py`."""

import functools
import operator
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from components.common import artifacts, splits, step, storage
from components.common.config import Config, parse
from components.common.errors import UserError
from components.common.splits import Days

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from components.common.bundle import Bundle, Scorer
    from components.drift.core import Signal


@dataclass(frozen=True)
class Job:
    """What is compared on which day."""

    config: Config
    day: date
    table: artifacts.Table
    model: "Bundle"
    scorer: "Scorer"
    reference: "pd.DataFrame"

    @property
    def window(self) -> Days:
        """The newest days."""
        return Days(self.day - timedelta(days=self.config.drift.window_days - 1), self.day)

    @property
    def labelled(self) -> Days:
        """As many days whose labels are due, without those the model has seen; empty when it has seen all."""
        plan, trained = splits.plan(self.config, self.day), date.fromisoformat(self.model.details["train"]["last"])
        first = plan.labels_due - timedelta(days=self.config.drift.window_days - 1)
        return Days(max(first, plan.features.first, trained + timedelta(days=1)), plan.labels_due)

    @property
    def rows_a_day(self) -> float:
        """What the training days held, on average."""
        train = self.model.details["train"]
        days = Days(date.fromisoformat(train["first"]), date.fromisoformat(train["last"]))
        return float(train["rows"]) / len(list(days))


def parser() -> step.Parser:
    """Return the step's flags."""
    return step.Parser("drift", "Compare the newest days with the training days, write a verdict.").takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        features="URI of the features manifest",
        model="URI of the model",
        drift="URI of the folder to write",
    )


def body(args: Namespace) -> dict[str, float]:
    """Compare, write the page, then the verdict."""
    from components.common import bundle
    from components.drift import core, evidently_report

    config, day = parse(args.config), splits.parse_date(args.date)
    model, table = bundle.load(args.model), artifacts.read_table(args.features)
    job = Job(config, day, table, model, bundle.Scorer(args.model, model), bundle.read_reference(args.model))
    numeric = [*model.inputs.numeric, core.SCORE]
    reference = job.reference[[*model.inputs.columns, core.SCORE]]

    rows = sum(table.partition(day).rows for day in job.window)
    step.log.info("comparing %d rows of %s with %d training rows", rows, job.window, len(reference))
    sample: list[pd.DataFrame] = []
    newest = _sampled(_scored(job, job.window), -(-rows // evidently_report.ROWS) or 1, sample)
    columns = core.compare(reference, _some(newest, job.window), numeric, config.drift)
    verdict = core.judge(columns, list(_signals(job)), config.drift)
    step.log.info("%s: %s", verdict.status, " ".join(verdict.reasons))
    page = evidently_report.render(reference, _joined(sample)[reference.columns], numeric, config.drift)
    storage.write_bytes(storage.join(args.drift, "evidently.html"), page.encode())
    record = asdict(verdict) | {
        "model_sha256": model.sha256,
        "window": {"first": str(job.window.first), "last": str(job.window.last), "rows": rows},
        "reference": {key: model.details["train"][key] for key in ("first", "last")} | {"rows": len(reference)},
        "columns": [asdict(column) for column in columns],
    }
    storage.write_json(storage.join(args.drift, "verdict.json"), record)
    return {"drifted_share": verdict.drifted_share, "score_psi": columns[-1].psi}


def _scored(job: Job, days: Days) -> "Iterator[pd.DataFrame]":
    """Yield the days' rows in batches: the model's inputs, `label` and its score."""
    from components.drift.core import SCORE

    inputs = job.model.inputs.columns
    for day in days:
        for rows in storage.read_batches(job.table.partition(day).uri, [*inputs, "label"]):
            missing = [name for name in inputs if name not in rows]
            if missing:
                raise UserError(f"the model needs input {missing[0]!r}, which the features of {day} lack; train again")
            yield rows.assign(**{SCORE: job.scorer.score(rows)})


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


def _signals(job: Job) -> "Iterator[Signal]":
    """Yield what the number of rows says, and what the labels that are due do."""
    from components.drift import core

    limits = job.config.drift
    yield core.volume(job.table.partition(job.day).rows, job.rows_a_day, limits.volume)
    days = list(job.labelled)
    if not days:
        return
    *_, newest = parts = [_known(job, day) for day in days]
    yield core.labels(int(newest[0].sum()), job.rows_a_day)
    promised = job.model.candidates[job.model.selected].get("validation", {}).get("average_precision")
    if promised is not None:
        ranks = functools.reduce(operator.add, (ranks for ranks, _ in parts))
        yield core.performance(ranks, promised, limits)
    current = _joined([frauds for _, frauds in parts])
    reference = job.reference[job.reference["label"] == 1]
    yield core.frauds(reference, current, job.model.inputs.numeric, limits)


def _known(job: Job, day: date) -> "tuple[npt.NDArray[np.int64], pd.DataFrame]":
    """Return how a day's rows with labels rank, and those of them that are frauds."""
    import numpy as np

    from components.drift import core

    ranks = np.zeros((2, core.SCORE_BINS), np.int64)
    frauds = [job.reference.iloc[:0]]
    for batch in _scored(job, Days(day, day)):
        rows = batch[batch["label"].notna()]
        ranks += core.rank(rows["label"].to_numpy("int8"), rows[core.SCORE].to_numpy())
        frauds.append(rows[rows["label"] == 1])
    # pandas warns where it cannot tell the types of frames without rows
    return ranks, _joined([part for part in frauds if len(part)] or frauds[:1])


if __name__ == "__main__":
    step.run(parser(), body)
