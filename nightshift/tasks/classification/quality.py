"""What the evaluation shows where a task has classes: metrics with intervals, each class, what is taken for what."""

from collections.abc import Iterator

from nightshift.contracts import evaluation as contract
from nightshift.contracts.section import Axis, Block, Chart, Fact, Row, Series, TableBlock, TableColumn, Text
from nightshift.tasks.base.metrics import Metric
from nightshift.tasks.classification import kinds
from nightshift.tasks.classification.judging import RANKED, ItemTrial
from nightshift.tasks.classification.metrics import ACCURACY
from nightshift.tasks.metric_reports import describe_highlight, tabulate_metrics

CONFUSED = 10
MULTILABEL = ("Average precision", "ROC AUC", "Calibration error", "Threshold")
SHARES = [0, 0.2, 0.4, 0.6, 0.8, 1]


def list_shown_metrics(trial: ItemTrial) -> list[Metric]:
    """Return the metrics that have a meaning with so many classes, of one each or of any number."""
    config, figures = trial.config, trial.challenger.figures
    metrics = kinds.metrics(config.task.kind).list_metrics(config)
    return [metric for metric in metrics if metric.name != "top_5_accuracy" or figures[metric.name] is not None]


def highlights(trial: ItemTrial) -> Iterator[Fact]:
    """Yield what a reader sees first."""
    for metric in list_shown_metrics(trial):
        if metric.resample:
            yield describe_highlight(trial, metric)
    if weakest := trial.challenger.weakest(trial.config.evaluation.min_class_rows):
        name = trial.config.task.classes[weakest[0]]
        yield Fact(label="Lowest recall of a class", value=weakest[1], format="score", note=name)
    left_out = trial.left_out
    seen = "" if left_out is None else f"{left_out:,} more left out, whose group or content is in the training days"
    yield Fact(label="Test rows", value=trial.test.rows, format="count", note=seen)


def blocks(trial: ItemTrial, figures: contract.ClassEvaluation) -> Iterator[Block]:
    """Yield all the rest: metrics, each class, slices, what is taken for what."""
    task = trial.config.task
    selected_by = next(metric for metric in kinds.metrics(task.kind).metrics if metric.name == task.select_by)
    ranked_by = selected_by if trial.model.decision.is_multilabel else ACCURACY
    yield tabulate_metrics(trial, list_shown_metrics(trial), ranked_by)
    yield Text(sentences=list(_explanations(trial)), is_fine_print=True)
    yield _classes(trial, figures)
    yield _slices(figures)
    if confused := _tabulate_confusions(figures):
        yield confused
    yield _reliability(figures.calibration)


def _explanations(trial: ItemTrial) -> Iterator[str]:
    yield "Brackets: 95 % intervals, from a bootstrap of the test rows by group."
    if any(metric.name == "top_5_accuracy" for metric in list_shown_metrics(trial)):
        yield "Top 5: the class is among the five most probable ones."
    yield "Macro F1 and ROC AUC are means over classes; calibration error is the gap between confidence and accuracy."
    if trial.model.decision.is_multilabel:
        yield (
            "A row may have any number of classes: accuracy is the share of rows all of whose labels are predicted, "
            "micro F1 is of all labels together, and thresholds are those with the highest F1 on the validation days."
        )


def _classes(trial: ItemTrial, figures: contract.ClassEvaluation) -> TableBlock:
    columns = [TableColumn(title="Class"), TableColumn(title="Test rows", format="count")]
    titles = ["Precision", "Recall", "F1"]
    thresholds = dict(zip(trial.config.task.classes, trial.model.decision.thresholds, strict=False))
    columns += [TableColumn(title=title, format="score") for title in [*titles, *(MULTILABEL if thresholds else ())]]
    weakest_first = sorted(figures.classes, key=lambda figure: 1 if figure.recall is None else figure.recall)
    unlearned = trial.model.lineage.unlearned
    rows = [
        Row(
            cells=[
                *(figure.name, figure.rows, figure.precision, figure.recall, figure.f1),
                *((*(getattr(figure, name) for name in RANKED), thresholds[figure.name]) if thresholds else ()),
            ],
            tag="no training rows" if figure.name in unlearned else "",
            tone="bad" if figure.name in unlearned and figure.rows else "neutral",
        )
        for figure in weakest_first
    ]
    return TableBlock(title="Classes, the weakest first", columns=columns, rows=rows, shown=CONFUSED)


def _slices(figures: contract.ClassEvaluation) -> TableBlock:
    columns = [
        TableColumn(title="Slice"),
        TableColumn(title="Test rows", format="count"),
        TableColumn(title="Accuracy", format="score"),
    ]
    rows = [Row(cells=[part.name, part.rows, part.accuracy]) for part in figures.slices]
    return TableBlock(title="Slices of the test days", columns=columns, rows=rows)


def _tabulate_confusions(figures: contract.ClassEvaluation) -> TableBlock | None:
    names = [figure.name for figure in figures.classes]
    pairs = [
        (count, names[true], names[predicted_number])
        for true, counts in enumerate(figures.confusion)
        for predicted_number, count in enumerate(counts)
        if count and true != predicted_number
    ]
    if not pairs:
        return None
    columns = [
        TableColumn(title="Class"),
        TableColumn(title="Taken for"),
        TableColumn(title="Test rows", format="count"),
    ]
    most_first = sorted(pairs, key=lambda pair: -pair[0])
    rows = [Row(cells=[true, predicted, count]) for count, true, predicted in most_first]
    return TableBlock(title="What is taken for what", columns=columns, rows=rows, shown=CONFUSED)


def _reliability(curve: contract.Calibration) -> Chart:
    points = list(zip(curve.predicted, curve.observed, strict=True))
    notes = [f"{count:,} rows" for count in curve.count]
    return Chart(
        title="Calibration",
        x=Axis(label="confidence", ticks=SHARES),
        y=Axis(label="share predicted right", ticks=SHARES),
        series=[
            Series(name="perfect calibration", style="reference", points=[(0, 0), (1, 1)]),
            Series(name="confidence bins", style="points", points=points, notes=notes),
        ],
    )
