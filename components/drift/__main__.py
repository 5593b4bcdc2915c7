"""Flags in, files out: see `components/drift/__init__.py`."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from components.drift import component, section
from nightshift import storage, tasks
from nightshift.contracts import drift, package, tables, verdict
from nightshift.contracts.artifact import Window
from nightshift.contracts.section import write_section
from nightshift.data.splits import Days
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.tasks.base.drift import Comparison, DriftInputs

if TYPE_CHECKING:
    import pandas as pd


def body(context: StepContext) -> dict[str, Any]:
    """Compare, write the page, the figures, then the verdict."""
    from components.drift import core

    inputs = _inputs(context)
    folder, model, window, features = context.args.drift, inputs.model, inputs.days.newest, inputs.features
    comparison = tasks.find(model.kind).drift.comparison(inputs)
    rows = sum(features.partition(day).rows for day in window)
    columns, page = _measure_shifts(comparison, window, rows)
    signals = list(core.signals(columns, inputs, comparison))
    judged = core.judge(model.sha256, columns, signals)
    before = model.lineage.reference or model.lineage.train
    step.log.info("%s: %s", judged.decision, " ".join(judged.reasons))
    page_uri = storage.join(folder, "evidently.html") if page else ""
    if page:
        storage.write_bytes(page_uri, page.encode())
    figures = drift.DriftReport(
        model_sha256=model.sha256,
        model_version=inputs.scores.details["version"],
        promised=inputs.scores.details["promised"],
        window=Window(first=window.first, last=window.last, rows=rows),
        reference=Window(first=before.first, last=before.last, rows=len(inputs.reference)),
        drifted_share=core.drifted_share(columns),
        columns=columns,
        signals=signals,
    )
    figures.write(storage.join(folder, drift.FILE))
    write_section(folder, section.build(judged, figures, page_uri, comparison.examples()))
    judged.write(storage.join(folder, verdict.FILE))
    return {
        "drifted_share": figures.drifted_share,
        "psi": {column.name: column.psi for column in columns},
        "effect": {signal.name: signal.value for signal in signals if signal.value is not None},
        "raised": {signal.name: float(signal.raised) for signal in signals},
    }


def _inputs(context: StepContext) -> DriftInputs[Any]:
    uri = context.args.scores
    scores, model = tables.read_table(storage.join(uri, "scores.json")), package.load(uri)
    reference = package.read_reference(uri)
    return DriftInputs(context.config, context.day, context.features, scores, uri, model, reference)


def _measure_shifts(comparison: Comparison, window: Days, rows: int) -> tuple[list[drift.ColumnDrift], str]:
    """Return how far the columns of the newest rows have moved, and Evidently's page where the config wants it."""
    from components.drift import evidently_report
    from nightshift.stats import shift

    reference, numeric, limits = comparison.reference, comparison.numeric, comparison.limits
    step.log.info("comparing %d rows of %s with the model's reference of %d", rows, window, len(reference))
    if not limits.evidently:
        return shift.compare(reference, _require_rows(comparison.batches(window), window), numeric, limits), ""
    sample: list[pd.DataFrame] = []
    kept = _keep_sample(comparison.batches(window), -(-rows // evidently_report.ROWS) or 1, sample)
    columns = shift.compare(reference, _require_rows(kept, window), numeric, limits)
    before = reference[[column.name for column in columns]]
    return columns, evidently_report.render(before, _concatenate(sample)[before.columns], numeric, limits)


def _require_rows(batches: "Iterable[pd.DataFrame]", days: Days) -> "Iterator[pd.DataFrame]":
    """Pass batches on; there has to be a row."""
    rows = 0
    for batch in batches:
        rows += len(batch)
        yield batch
    if not rows:
        raise UserError(f"the features of {days} have no rows, so there is nothing to compare; check the date")


def _keep_sample(
    batches: "Iterable[pd.DataFrame]", every: int, sample: "list[pd.DataFrame]"
) -> "Iterator[pd.DataFrame]":
    """Pass batches on, and keep one row in every so many."""
    seen = 0
    for batch in batches:
        # a copy, since a view would keep the whole batch
        sample.append(batch.iloc[-seen % every :: every].copy())
        seen += len(batch)
        yield batch


def _concatenate(frames: "list[pd.DataFrame]") -> "pd.DataFrame":
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


if __name__ == "__main__":
    step.run(component.drift.parser(), body)
