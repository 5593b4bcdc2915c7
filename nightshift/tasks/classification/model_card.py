"""The model card where a task has classes, in Markdown; after Mitchell et al., 2019."""

from collections.abc import Iterable

from nightshift.contracts.evaluation import ClassEvaluation
from nightshift.tasks.classification.judging import ItemTrial
from nightshift.tasks.classification.quality import list_shown_metrics
from nightshift.tasks.markdown import code, items, line, page, strong, table
from nightshift.tasks.metric_reports import render_metrics
from nightshift.tasks.model_cards import NOTHING, identity


def render(trial: ItemTrial, figures: ClassEvaluation, defaults: str = "recipe") -> str:
    """Write the card of a model.

    Args:
        trial: its evaluation.
        figures: `evaluation.json`.
        defaults: whose parameters a model has where none are given.
    """
    sections = {
        "Model": identity(trial.model, trial.config, *_rule(trial), defaults=defaults),
        "Data": _data(trial),
        "Metrics on the test days": _metrics(trial),
        "Verdict": items([strong(trial.verdict.decision), *trial.verdict.reasons]),
        "Classes": _classes(trial, figures),
        "Slices": _slices(figures),
        "Limits": items(_limits(trial)),
    }
    return page(f"Model card: {trial.config.name}, {trial.model.selected}", sections)


def _rule(trial: ItemTrial) -> Iterable[str]:
    thresholds = trial.model.decision.thresholds
    if thresholds:
        named = zip(trial.config.task.classes, thresholds, strict=True)
        yield f"A row has each class from its threshold on: {', '.join(f'{name} {value:.3f}' for name, value in named)}"


def _data(trial: ItemTrial) -> list[str]:
    lineage = trial.model.lineage
    windows = {"selection of a candidate": lineage.validation, "final training": lineage.train, "test": trial.test}
    cells = [(name, f"{seen.first} .. {seen.last}", f"{seen.rows:,}") for name, seen in windows.items()]
    hashes = items([line("Events: ", code(lineage.events_sha256)), line("Features: ", code(lineage.features_sha256))])
    return [*table(("Days", "from .. to", "Rows"), cells), "", *hashes]


def _metrics(trial: ItemTrial) -> list[str]:
    note = "In brackets: 95 % intervals from a bootstrap of the test rows by group."
    return [*render_metrics(trial, list_shown_metrics(trial)), "", note]


def _classes(trial: ItemTrial, figures: ClassEvaluation) -> list[str]:
    ranked = {"average_precision": "Average precision"} if trial.model.decision.is_multilabel else {}
    titles = {"precision": "Precision", "recall": "Recall", "f1": "F1", **ranked}
    cells = [
        (figure.name, f"{figure.rows:,}", *(_number(getattr(figure, name)) for name in titles))
        for figure in figures.classes
    ]
    return table(("Class", "Test rows", *titles.values()), cells)


def _slices(figures: ClassEvaluation) -> list[str]:
    cells = [(part.name, f"{part.rows:,}", f"{part.accuracy:.3f}") for part in figures.slices]
    return table(("Slice", "Test rows", "Accuracy"), cells)


def _limits(trial: ItemTrial) -> Iterable[str]:
    config = trial.config
    yield (
        f"It was trained on {config.protocol.train_days} days and measured on {config.protocol.test_days} later ones; "
        "it has not seen other seasons or sources."
    )
    otherwise = "is not seen" if trial.model.decision.is_multilabel else "is taken for one of them"
    yield f"It knows the classes above and no others: what is none of them {otherwise}."
    if unlearned := trial.model.lineage.unlearned:
        yield f"No training row is of {', '.join(unlearned)}: it takes rows of them for others."
    if trial.left_out:
        yield f"{trial.left_out:,} rows of the test days share group or content with training rows and were left out."
    if {"group", "customer"}.isdisjoint(config.columns.roles):
        yield "Rows are taken to be independent; those that belong together make the intervals too narrow."
    few = [name for name, rows in zip(config.task.classes, trial.challenger.counts.true, strict=True)
           if rows < config.evaluation.min_class_rows]  # fmt: skip
    if few:
        yield f"Too few test rows to judge alone: {', '.join(few)}."


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"
