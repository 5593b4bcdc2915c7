"""Flags in, files out: see `components/scoring/__init__.py`."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from components.common import release, splits, step, storage
from components.common.config import Config, parse
from components.common.contracts import package, tables
from components.common.contracts.package import ModelPackage
from components.common.contracts.section import write_section
from components.common.contracts.state import State
from components.common.dates import parse_date
from components.common.errors import UserError
from components.common.release import Place
from components.scoring import section

if TYPE_CHECKING:
    import pandas as pd

    from components.classes.scorer import Scorer as ClassScorer
    from components.scoring.answered import Answered
    from components.tabular.inputs import Scorer

QUANTILES = [0.1, 0.5, 0.9, 0.99, 0.999]  # of a day's scores, few of which are high


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes:
        uri: its folder.
        version: its number in the registry, `unregistered` before it has one.
        evaluated: its average precision, or accuracy, on the test days, known of a registered version.
    """

    uri: str
    version: str
    evaluated: float | None = None


@dataclass(frozen=True)
class Job:
    """What scores which table, and where the scores go."""

    config: Config
    lake: str
    features: tables.Table
    source: Source
    model: ModelPackage
    scorer: "Scorer | ClassScorer"

    @property
    def trained_until(self) -> date:
        """The last of the model's training days."""
        return self.model.lineage.train.last

    def uri(self, day: date) -> str:
        """Return where a day's scores lie: the name is a hash of the features and the model they are made from."""
        from components.scoring import core

        made_from = [core.SCHEMA, self.features.partition(day).sha256, self.model.sha256, self.source.version]
        return tables.partition_uri(self.lake, self.config.name, "scores", day, storage.fingerprint(made_from))


def parser() -> step.Parser:
    """Return the step's flags."""
    flags = step.Parser("scoring", "Score the newest days, and those whose labels are due.").takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        state="where things are kept (JSON)",
        features="URI of the features manifest",
        scores="URI of the folder to write",
    )
    flags.add_argument("--model", help="URI of the model that scores (default: the registry's champion)")
    return flags


def body(args: Namespace) -> dict[str, Any]:
    """Score the days that the lake lacks, then write what the drift step needs."""
    config, day, state = parse(args.config), parse_date(args.date), State.parse(args.state)
    source = Source(args.model, "unregistered") if args.model else _champion(Place.of(state, config.name))
    model, table = package.load(source.uri), tables.read_table(args.features)
    job = Job(config, state.lake, table, source, model, _scorer(source, model))
    days = splits.watched(config, day, job.trained_until)
    if job.trained_until >= days.newest.first:
        # a backfill of past days does this; it is no reason to stop
        told = "the model was trained until %s: its scores of %s say nothing about its quality"
        step.log.warning(told, job.trained_until, days.newest)
    parts = [tables.find_partition(job.uri(each)) or _write(job, each) for each in days]
    scored = storage.read_frame(parts[-1].uri)
    flagged = int(scored["flagged"].sum()) if "flagged" in scored else None
    step.log.info("%s: %d rows scored by version %s", day, parts[-1].rows, source.version)
    quantiles = {str(q): float(value) for q, value in scored["score"].quantile(QUANTILES).dropna().items()}
    answered = None if args.model else _answered(job, day, scored)
    write_section(args.scores, section.build(parts, source.version, flagged, quantiles, answered))
    counted = {} if flagged is None else {"flagged": flagged}
    _save(args.scores, job, tables.Table("scores", parts, {**_details(job), **counted}))
    if answered:  # zeros too: a metric that is there always can be watched
        counted |= {"answered": answered.answered, "answered_otherwise": answered.differing}
    return {"rows": parts[-1].rows, "score_quantile": quantiles, **counted}


def _scorer(source: Source, model: ModelPackage) -> "Scorer | ClassScorer":
    if model.has_classes:
        from components.classes import scorer

        return scorer.Scorer(source.uri, model)
    from components.tabular.inputs import Scorer

    return Scorer(source.uri, model)


def _champion(place: Place) -> Source:
    version = release.champion(place)
    if version is None:
        raise UserError(
            f"registry {place.registry} has no champion of {place.name!r} to score with; "
            "run training first: nightshift run"
        )
    evaluated = version.tags.get(promise(package.load(version.uri)))
    return Source(version.uri, str(version.version), float(evaluated) if evaluated else None)


def _write(job: Job, day: date) -> tables.Partition:
    step.log.info("scoring %d rows of %s", job.features.partition(day).rows, day)
    if job.model.has_classes:
        return tables.write_partition(job.uri(day), day, _classified(job, job.features.partition(day)), {})
    return tables.write_batches(job.uri(day), day, _scored(job, job.features.partition(day)))


def _classified(job: Job, part: tables.Partition) -> "pd.DataFrame":
    from components.classes import shards
    from components.scoring import core

    shards.check(job.features, job.model.classes)
    rows, inputs = storage.read_frame(part.uri, list(core.KEYS)), shards.mapped(part)
    return core.classified(rows, inputs, job.model, job.source.version, job.scorer.graph)


def _scored(job: Job, part: tables.Partition) -> "Iterator[pd.DataFrame]":
    from components.scoring import core

    columns = [*core.KEYS, *job.model.tabular.columns]
    # of a day without rows there is no batch, and its scores need columns all the same
    batches = storage.read_batches(part.uri, columns) if part.rows else [storage.read_frame(part.uri)]
    for rows in batches:
        yield core.scored(rows, job.model, job.source.version, job.scorer.score)


def _answered(job: Job, day: date, scored: "pd.DataFrame") -> "Answered":
    from components.scoring import answered

    if job.model.has_classes:
        scored = scored.assign(content=storage.read_frame(job.features.partition(day).uri, ["content"])["content"])
    folder = storage.join(job.lake, job.config.name, "predictions")
    return answered.compared(folder, day, scored, job.source.version)


def _details(job: Job) -> dict[str, Any]:
    return {
        "model": job.source.uri,
        "model_sha256": job.model.sha256,
        "version": job.source.version,
        "trained_until": str(job.trained_until),
        "promised": _promised(job),
    }


def _promised(job: Job) -> dict[str, Any] | None:
    """Return what to expect of the model and where it was measured, or None when nobody has."""
    metric = promise(job.model)
    if job.source.evaluated is not None:
        return {"metric": metric, "value": job.source.evaluated, "measured": "when it was evaluated"}
    validated = job.model.candidates[job.model.selected].validation.get(metric)
    return None if validated is None else {"metric": metric, "value": validated, "measured": "on its validation days"}


def promise(model: ModelPackage) -> str:
    """Return the metric by which a model is held to what was measured of it."""
    return "accuracy" if model.has_classes else "average_precision"


def _save(folder: str, job: Job, scores: tables.Table) -> None:
    """Copy what drift needs of a model, which may lie where only this process can read it; then write the manifest."""
    package.copy(job.source.uri, folder, only=[package.REFERENCE, *job.model.vocabularies])
    tables.write_table(storage.join(folder, "scores.json"), scores)


if __name__ == "__main__":
    step.run(parser(), body)
