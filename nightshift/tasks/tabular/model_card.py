"""The model card, in Markdown: what a model was made from, how good it is and where, and what it does not know.

After Mitchell et al., Model Cards for Model Reporting, 2019.
"""

from collections.abc import Iterable

from nightshift.tasks.markdown import code, items, line, page, strong, table
from nightshift.tasks.metric_reports import render_metrics
from nightshift.tasks.model_cards import NOTHING, identity
from nightshift.tasks.tabular.explain import CalibrationSummary, Explanation, Slice
from nightshift.tasks.tabular.judging import RowTrial


def render(trial: RowTrial, explained: Explanation) -> str:
    """Write the card of a model.

    Args:
        trial: its evaluation.
        explained: the selected candidate.
    """
    flags = f"Flags an event from a score of {trial.model.threshold:.4g}"
    sections = {
        "Model": identity(trial.model, trial.config, flags, defaults="library"),
        "Data": _data(trial),
        "Metrics on the test days": _metrics(trial),
        "Verdict": items([strong(trial.verdict.decision), *trial.verdict.reasons]),
        "Slices": _slices(explained.slices),
        "Calibration": _calibration(explained.calibration),
        "Feature importance": _importances(explained.importances),
        "Limits": items(_limits(trial, explained.slices)),
    }
    return page(f"Model card: {trial.config.name}, {trial.model.selected}", sections)


def _data(trial: RowTrial) -> list[str]:
    lineage = trial.model.lineage
    windows = {"selection of a candidate": lineage.validation, "final training": lineage.train, "test": trial.test}
    cells = [
        (name, f"{seen.first} .. {seen.last}", f"{seen.rows:,}", f"{seen.positives:,}")
        for name, seen in windows.items()
    ]
    hashes = items([line("Events: ", code(lineage.events_sha256)), line("Features: ", code(lineage.features_sha256))])
    return [*table(("Days", "from .. to", "Rows", "Positives"), cells), "", *hashes]


def _metrics(trial: RowTrial) -> list[str]:
    return [*render_metrics(trial, trial.metrics), "", *_cost(trial)]


def _cost(trial: RowTrial) -> list[str]:
    gate, contender, columns = trial.config.evaluation, trial.challenger, trial.config.columns
    unit = f"values of {columns.customer}" if columns.customer else "events"
    return [
        f"Precision at {gate.top_k} is the share of positives among the {gate.top_k} {unit} with the highest scores of "
        "a day, averaged over days; its ceiling is what a perfect model reaches. In brackets: 95 % intervals from a "
        f"stratified bootstrap of the test rows (for the precision at {gate.top_k}, of the {unit}).",
        "",
        f"The selected candidate flags {contender.cost.alerts:,} events and misses {contender.cost.missed_positives:,} "
        f"positives: {contender.estimates()['cost']} per 1,000 events, where a check costs {gate.cost_per_alert:g} "
        f"and a missed positive {gate.cost_missed_positive:g}{' times its amount' if columns.amount else ''}.",
    ]


def _slices(slices: list[Slice]) -> list[str]:
    cells = [(part.name, f"{part.rows:,}", f"{part.positives:,}", _number(part.average_precision)) for part in slices]
    note = "Of the selected candidate. Average precision depends on the share of positives, so compare with care."
    return [*table(("Slice", "Rows", "Positives", "Average precision"), cells), "", note]


def _calibration(calibration: CalibrationSummary) -> list[str]:
    return items(
        [
            f"Mean score {calibration.predicted:.4f}, share of positives {calibration.observed:.4f}",
            f"Highest bin: mean score {calibration.top_predicted:.3f}, "
            f"share of positives {calibration.top_observed:.3f}",
            f"Expected calibration error {calibration.error:.4f}",
        ]
    )


def _importances(calibration: list[tuple[str, float]]) -> list[str]:
    if not calibration:
        return ["Not measured: the test days hold one class only."]
    note = "Drop of average precision when the input is shuffled, on a sample of the test rows. "
    cells = [(name, _number(drop)) for name, drop in calibration]
    return [*table(("Input", "Drop"), cells), "", f"{note}Correlated inputs substitute for one another."]


def _limits(trial: RowTrial, slices: list[Slice]) -> Iterable[str]:
    config = trial.config
    delay = config.label_delay_days
    yield f"Labels count as known after {delay} days; events that turn positive later count as negative."
    yield (
        f"It was trained on {config.protocol.train_days} days and measured on {config.protocol.test_days} later "
        "ones; it has not seen other seasons, holidays or kinds of positives."
    )
    yield "The intervals treat events as independent and the days as given; clustered positives make them too narrow."
    if config.columns.customer and config.protocol.drop_compromised:
        yield (
            f"Values of {config.columns.customer} already known as positive are left out of the test rows; the model "
            "is not measured on them."
        )
    unsure = [part.name for part in slices if part.average_precision is None]
    if unsure:
        yield f"Too few positives to measure: {'; '.join(unsure)}."
    yield from trial.notes
    if trial.model.tabular.categorical:
        yield "A category that did not occur in training is treated as none of the known ones."
    yield "Its scores rank events; they are probabilities only as far as the calibration above shows."
    yield "No personal attributes were examined, so nothing is known about fairness between groups."


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:z.3f}"
