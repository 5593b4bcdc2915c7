"""Flags in, files out: see `components/evaluation/__init__.py`."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from components.evaluation import component, section
from nightshift import storage, tasks
from nightshift.contracts import evaluation, package, verdict
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import write_section
from nightshift.registry import Version, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError
from nightshift.tasks.base.evaluation import EvaluationReport, RowsUnderTest


def body(context: StepContext) -> dict[str, Any]:
    """Evaluate against the registry's champion."""
    return evaluate(context, release_record.champion)


def evaluate(context: StepContext, find_champion: Callable[[ReleaseRef], Version | None]) -> dict[str, Any]:
    """Measure, compare, write the figures and the model card, then the verdict.

    Args:
        context: of the step.
        find_champion: place of the releases -> the version that serves.
    """
    args, model, fold = context.args, context.model, context.plan.test
    rows = tasks.find(model.kind).evaluation.read_test_rows(context.config, context.features, fold, model)
    step.log.info("scoring %s", rows)
    candidates = {name: rows.measure(args.model, model, name) for name in model.candidates}
    ref = ReleaseRef.from_state(context.state, context.config.name)
    champion = _champion(find_champion(ref), rows, model)
    reference = _reference(context, ref, rows)
    report = rows.report(args.model, model, candidates, champion, reference)
    step.log.info("%s: %s", report.verdict.decision, " ".join(report.verdict.reasons))
    for caveat in report.caveats:
        step.log.warning("%s", caveat)
    _save(args.evaluation, report)
    return {"passed": float(report.verdict.is_pass), **report.metrics}


def _champion(version: Version | None, rows: RowsUnderTest[Any], ours: ModelPackage) -> Any:
    """Return the champion measured on the rows, or a sentence why there is none to compare with."""
    if version is None:
        return "There was no champion to compare with."
    return _measure(f"Champion version {version.version}", version, rows, ours)


def _reference(context: StepContext, ref: ReleaseRef, rows: RowsUnderTest[Any]) -> Any | None:
    """Return the best of earlier versions measured on the rows; None where the champion is that, or nothing can be."""
    model, days = context.model, context.config.evaluation.reference_days
    version = release_record.find_reference(ref, model.lineage.train.last - timedelta(days=days)) if days else None
    if version is None:
        return None
    measured = _measure(f"Version {version.version}, the best one so far,", version, rows, model)
    if isinstance(measured, str):
        step.log.warning("%s", measured)
        return None
    return measured


def _measure(name: str, version: Version, rows: RowsUnderTest[Any], ours: ModelPackage) -> Any:
    """Return a version measured on the rows, or a sentence why it cannot be, which begins with its name.

    Raises:
        UnavailableError: when its store does not answer.
    """
    try:
        model = package.load(version.uri)
        if reason := rows.incompatibility(ours, model):
            return f"{name} {reason}."
        return rows.measure(version.uri, model, model.selected, version.version)
    except UnavailableError:  # it may be readable later: without it, a worse model would pass
        raise
    except Exception as error:  # whatever is wrong with an old model must not stop the new one
        return f"{name} cannot be read: {' '.join(str(error).split())}."


def _save(folder: str, report: EvaluationReport) -> None:
    """Write all the rest, then `verdict.json`, by which the folder is complete."""
    report.figures.write(storage.join(folder, evaluation.FILE))
    card = storage.join(folder, "model_card.md")
    write_section(folder, section.build(report, card))
    storage.write_bytes(card, report.card.encode())
    for name, judged in report.others.items():
        judged.write(storage.join(folder, name))
    report.verdict.write(storage.join(folder, verdict.FILE))


if __name__ == "__main__":
    step.run(component.evaluation.parser(), body)
