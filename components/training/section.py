"""What training shows on the page of its run: the candidates and the choice."""

from collections.abc import Sequence
from typing import Literal

from nightshift.contracts.package import ModelPackage, PackagedCandidate
from nightshift.contracts.section import Axis, Block, Chart, Notice, Row, Section, Series, TableBlock, TableColumn, Text
from nightshift.tasks.base.metrics import Metric

WEIGHT = 40


def build(package: ModelPackage, metrics: Sequence[Metric]) -> Section:
    """Return the section of a training.

    Args:
        package: what was trained.
        metrics: those that are shown.
    """
    lineage = package.lineage
    train, chosen_on = lineage.train, lineage.validation
    days = (
        f"Candidates were fitted on earlier days and compared on {chosen_on.rows:,} rows of {chosen_on.first} to "
        f"{chosen_on.last}; then each was fitted anew on {train.rows:,} rows of {train.first} to {train.last}, on "
        f"{lineage.device}, seed {lineage.seed}."
    )
    blocks: list[Block] = [Text(sentences=[_sentence(lineage.reason), days]), _candidates(package, metrics)]
    if any(entry.losses for entry in package.candidates.values()):
        blocks.append(_losses(package))
    if lineage.unlearned:
        names = ", ".join(map(repr, lineage.unlearned))
        sentence = f"No training row is of {names}: the model takes rows of them for others."
        blocks.append(Notice(title="Classes without training rows", sentences=[sentence]))
    if package.dropped:
        reasons = [f"{name}: {reason}" for name, reason in package.dropped.items()]
        blocks.append(Notice(title="Dropped candidates", sentences=reasons))
    return Section(title="Training", weight=WEIGHT, blocks=blocks)


def _candidates(package: ModelPackage, metrics: Sequence[Metric]) -> TableBlock:
    columns = [
        TableColumn(title="Candidate"),
        TableColumn(title="Kind"),
        *(TableColumn(title=metric.title, format=metric.format) for metric in metrics),
        TableColumn(title="Fitted in", format="seconds"),
    ]
    rows = [_row(name, entry, metrics, name == package.selected) for name, entry in package.candidates.items()]
    return TableBlock(title="Candidates on the validation days", columns=columns, rows=rows)


def _losses(package: ModelPackage) -> Chart:
    """Chart the losses of each network over its training; the selected one's training loss is drawn in full."""
    series = [one for name, entry in package.candidates.items() for one in _courses(name, entry, package.selected)]
    points = [point for one in series for point in one.points]
    has_validation = any(entry.validation_losses for entry in package.candidates.values())
    return Chart(
        title="Training and validation loss" if has_validation else "Training loss",
        x=Axis.from_zero("steps", [step for step, _ in points]),
        y=Axis.from_zero("mean loss", [loss for _, loss in points]),
        series=series,
    )


def _courses(name: str, entry: PackagedCandidate, selected: str) -> list[Series]:
    """Return the course of a network's training loss, and of its validation loss where rows were held out."""
    style: Literal["line", "reference"] = "line" if name == selected else "reference"
    training = Series(name=name, style=style, points=entry.losses)
    validation = Series(name=f"{name}, validation", style="reference", points=entry.validation_losses)
    return [one for one in (training, validation) if one.points]


def _row(name: str, entry: PackagedCandidate, metrics: Sequence[Metric], is_selected: bool) -> Row:
    cells = [name, entry.kind, *(entry.validation[metric.name] for metric in metrics), entry.seconds]
    return Row(cells=cells, tag="selected" if is_selected else "", tone="good" if is_selected else "neutral")


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
