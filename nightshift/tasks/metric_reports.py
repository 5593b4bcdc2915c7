"""What gate, report and model card say of a task's metrics, whichever there are."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nightshift.contracts.section import Cell, Estimate, Fact, Row, TableBlock, TableColumn
from nightshift.contracts.verdict import Measure
from nightshift.tasks.base.metrics import Metric
from nightshift.tasks.markdown import strong, table
from nightshift.tasks.model_cards import NOTHING
from nightshift.tasks.trials import Contender, Trial


def list_measures(challenger: Contender, metrics: Sequence[Metric], limits: Mapping[str, float]) -> Iterator[Measure]:
    """Yield metrics as measures of a verdict.

    Args:
        challenger: the new model.
        metrics: to list.
        limits: metric -> the limit that the gate holds it to.
    """
    sure = challenger.estimates()
    for metric in metrics:
        estimate = sure.get(metric.name)
        yield Measure(
            name=metric.name,
            value=challenger.metrics[metric.name],
            limit=limits.get(metric.name),
            interval=estimate and (estimate.low, estimate.high),
            higher_is_better=not metric.is_lower_better,
        )


def describe_highlight(trial: Trial[Any], metric: Metric) -> Fact:
    """Return a metric of the challenger as a reader sees it first, beside the champion's or what is possible."""
    value, selected, note = _value(trial.challenger, metric), trial.model.selected, ""
    if metric.bound:
        note = f"at most {trial.challenger.metrics[metric.bound]:.3f} is possible"
    elif metric.resample and trial.rival and value is not None:
        note = f"{selected}, champion {trial.rival.metrics[metric.name]:.3f}"
    return Fact(label=metric.title, value=value, format=metric.format, note=note or selected)


def tabulate_metrics(trial: Trial[Any], metrics: Sequence[Metric], ranked_by: Metric) -> TableBlock:
    """Return the metrics of each candidate, the best by a metric first, and of the champion."""
    ranked = sorted(trial.candidates.items(), key=lambda item: _rank(item[1], ranked_by))
    rows = [_row(name, contender, metrics, name == trial.model.selected) for name, contender in ranked]
    if trial.rival:
        rows.append(_row(f"champion, version {trial.rival.version}", trial.rival, metrics, is_selected=False))
    columns = [TableColumn(title=metric.title, format=metric.format) for metric in metrics]
    title = "Metrics on the test days"
    return TableBlock(title=title, columns=[TableColumn(title="Candidate"), *columns], rows=rows, is_key=True)


def render_metrics(trial: Trial[Any], metrics: Sequence[Metric]) -> list[str]:
    """Return the metrics of each candidate as a table of the model card, in Markdown."""
    cells = [
        (strong(name) if name == trial.model.selected else name, *(_spell(contender, metric) for metric in metrics))
        for name, contender in trial.candidates.items()
    ]
    return table(("Candidate", *(metric.title for metric in metrics)), cells)


def _rank(contender: Contender, metric: Metric) -> float:
    value = float(contender.metrics[metric.name] or 0)
    return value if metric.is_lower_better else -value


def _row(name: str, contender: Contender, metrics: Sequence[Metric], is_selected: bool) -> Row:
    cells: list[Cell] = [name, *(_value(contender, metric) for metric in metrics)]
    return Row(cells=cells, tag="selected" if is_selected else "", tone="good" if is_selected else "neutral")


def _value(contender: Contender, metric: Metric) -> Estimate | float | None:
    value: float | None = contender.metrics[metric.name]
    estimate = contender.estimates().get(metric.name)
    return value if estimate is None else Estimate(value=estimate.value, low=estimate.low, high=estimate.high)


def _spell(contender: Contender, metric: Metric) -> str:
    estimate, value = contender.estimates().get(metric.name), contender.metrics[metric.name]
    if estimate is not None:
        return str(estimate)
    return NOTHING if value is None else f"{value:z.3f}"
