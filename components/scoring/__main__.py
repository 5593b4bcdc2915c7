"""Flags in, files out: see `components/scoring/__init__.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.scoring import alerts, component, reason_counts, section, sink
from nightshift import storage, tasks
from nightshift.contracts import package, tables
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import write_section
from nightshift.data import splits
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.tasks import Task
from nightshift.tasks.base.scoring import DayScorer

if TYPE_CHECKING:
    import pandas as pd

    from components.scoring.serving_skew import ServingSkew

SCHEMA = 2  # version of the columns; a new number makes every day anew
QUANTILES = [0.1, 0.5, 0.9, 0.99, 0.999]  # quantiles of a day's scores, few of which are high


@dataclass(frozen=True)
class ScoringModel:
    """The model that scores.

    Attributes:
        uri: its folder.
        version: its number in the registry, `unregistered` before it has one.
        tags: those of a registered version.
    """

    uri: str
    version: str
    tags: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def model(self) -> ModelPackage:
        """Its manifest."""
        return package.load(self.uri)

    @property
    def task(self) -> Task:
        """The task it is a model of."""
        return tasks.find(self.model.kind)


@dataclass(frozen=True)
class ScoringSetup:
    """A model, the table that it scores, and the URIs of the scores."""

    context: StepContext
    source: ScoringModel
    scorer: DayScorer

    @property
    def model(self) -> ModelPackage:
        """The manifest of the model."""
        return self.source.model

    @property
    def trained_until(self) -> date:
        """The last of the model's training days."""
        return self.model.lineage.train.last

    def uri(self, day: date) -> str:
        """Return where a day's scores lie: the name is a hash of the features and the model they are made from."""
        features = self.context.features.partition(day)
        made_from = [SCHEMA, features.sha256, self.model.sha256, self.source.version]
        made_from += [reasons] if (reasons := self.context.config.scoring.reasons) else []
        lake, name = self.context.state.lake, self.context.config.name
        return tables.partition_uri(lake, name, "scores", day, storage.fingerprint(made_from))


def body(context: StepContext) -> dict[str, Any]:
    """Score the days that the lake lacks, then write what the drift step needs."""
    args, day = context.args, context.day
    setup = _build_job(context, args.model)
    days = splits.monitoring_window(context.config, day, setup.trained_until)
    if setup.trained_until >= days.newest.first:
        # a backfill of past days does this; it is no reason to stop
        message = "the model was trained until %s: its scores of %s say nothing about its quality"
        step.log.warning(message, setup.trained_until, days.newest)
    parts = [tables.find_partition(setup.uri(scored_day)) or _write(setup, scored_day) for scored_day in days]
    if context.config.scoring.database and not args.model:
        sink.write_days(context.config.scoring, parts)
    scored = storage.read_frame(parts[-1].uri)
    flagged = int(scored["flagged"].sum()) if "flagged" in scored else None
    flood = None if flagged is None else alerts.compare_flags(parts, context.config.scoring.max_flagged)
    step.log.info("%s: %d rows scored by version %s", day, parts[-1].rows, setup.source.version)
    quantiles = {str(q): float(value) for q, value in scored["score"].quantile(QUANTILES).dropna().items()}
    skew = None if args.model else _measure_skew(setup, scored)
    raised = [*alerts.report_flood(flood), *alerts.report_late_labels(context.features)]
    for alert in raised:
        step.log.warning("%s", alert.sentence)
    table = reason_counts.build(scored) if "reasons" in scored else None
    write_section(args.scores, section.build(parts, setup.source.version, flagged, quantiles, skew, raised, table))
    counted = {} if flagged is None else {"flagged": flagged}
    signals = {"signals": [flood.model_dump(mode="json")]} if flood else {}
    _save(args.scores, setup, tables.Table("scores", parts, {**_details(setup), **counted, **signals}))
    if skew:  # zeros too: a metric that is there always can be watched
        counted |= {"answered": skew.answered, "answered_otherwise": skew.differing}
    return {"rows": parts[-1].rows, "score_quantile": quantiles, **counted}


def _build_job(context: StepContext, uri: str | None) -> ScoringSetup:
    source = ScoringModel(uri, "unregistered") if uri else _find_champion(context)
    task, reasons = source.task.scoring, context.config.scoring.reasons
    if reasons:
        return ScoringSetup(context, source, task.explaining_scorer(source.uri, source.model, reasons))
    return ScoringSetup(context, source, task.scorer(source.uri, source.model))


def _find_champion(context: StepContext) -> ScoringModel:
    version = release_record.require_champion(ReleaseRef.from_state(context.state, context.config.name))
    return ScoringModel(version.uri, str(version.version), version.tags)


def _write(setup: ScoringSetup, day: date) -> tables.Partition:
    step.log.info("scoring %d rows of %s", setup.context.features.partition(day).rows, day)
    batches = setup.scorer.batches(setup.context.features, day)
    versioned = (rows.assign(model_version=setup.source.version) for rows in batches)
    return tables.write_batches(setup.uri(day), day, versioned)


def _measure_skew(setup: ScoringSetup, scored: "pd.DataFrame") -> "ServingSkew":
    from components.scoring import serving_skew

    state, config, day = setup.context.state, setup.context.config, setup.context.day
    known = setup.source.task.scoring.identify(scored, setup.context.features.partition(day))
    return serving_skew.compare(storage.join(state.lake, config.name, "predictions"), day, known, setup.source.version)


def _details(setup: ScoringSetup) -> dict[str, Any]:
    return {
        "model": setup.source.uri,
        "model_sha256": setup.model.sha256,
        "version": setup.source.version,
        "trained_until": str(setup.trained_until),
        "promised": _find_promise(setup),
    }


def _find_promise(setup: ScoringSetup) -> dict[str, Any] | None:
    """Return the metric that the model is held to and where it was measured, None when it was not."""
    metric = setup.source.task.metrics.promise
    if evaluated := setup.source.tags.get(metric):
        return {"metric": metric, "value": float(evaluated), "measured": "when it was evaluated"}
    validated = setup.model.candidates[setup.model.selected].validation.get(metric)
    return None if validated is None else {"metric": metric, "value": validated, "measured": "on its validation days"}


def _save(folder: str, setup: ScoringSetup, scores: tables.Table) -> None:
    """Copy what drift needs of a model, which may lie where only this process can read it; then write the manifest."""
    package.copy(setup.source.uri, folder, only=[package.REFERENCE, *setup.model.vocabularies])
    tables.write_table(storage.join(folder, "scores.json"), scores)


if __name__ == "__main__":
    step.run(component.scoring.parser(), body)
