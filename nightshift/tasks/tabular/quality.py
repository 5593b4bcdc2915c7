"""What the evaluation shows on the page of its run: metrics with intervals, curves, slices, caveats."""

from collections.abc import Iterator

from nightshift.contracts import evaluation as contract
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.section import (
    Axis,
    Block,
    Chart,
    Estimate,
    Fact,
    Facts,
    Notice,
    Row,
    Series,
    TableBlock,
    TableColumn,
    Text,
)
from nightshift.stats.comparison import BootstrapEstimate
from nightshift.tasks.metric_reports import describe_highlight, tabulate_metrics
from nightshift.tasks.tabular.explain import CalibrationSummary, Explanation, Slice
from nightshift.tasks.tabular.judging import RowTrial
from nightshift.tasks.tabular.metrics import AVERAGE_PRECISION

SHARES = [0, 0.2, 0.4, 0.6, 0.8, 1]
SMALL_SHARES = [0, 0.01, 0.05, 0.2, 0.5, 1]


def highlights(trial: RowTrial) -> Iterator[Fact]:
    """Yield what a reader sees first."""
    headline = [metric for metric in trial.metrics if metric.is_headline]
    # the gate's metric comes first
    for metric in sorted(headline, key=lambda metric: metric.name != AVERAGE_PRECISION.name):
        yield describe_highlight(trial, metric)
    contender = trial.challenger
    note = f"{contender.cost.alerts:,} flagged, {contender.cost.missed_positives:,} positives missed"
    cost = _sure(contender.estimates()["cost"])
    yield Fact(label="Cost per 1,000 events", value=cost, format="plain", note=note)
    note = f"{trial.test.positives:,} positives"
    yield Fact(label="Test events", value=trial.test.rows, format="count", note=note)
    (differing,) = trial.skew.measures
    yield Fact(label="Events that differ online", value=differing.value, format="count", note=trial.skew.reasons[0])


def blocks(trial: RowTrial, curves: contract.Curves, explanation: Explanation) -> Iterator[Block]:
    """Yield all the rest: metrics, curves, slices, windows.

    Args:
        trial: who stood against whom, and the outcome.
        curves: of the selected candidate.
        explanation: of the selected candidate.
    """
    yield tabulate_metrics(trial, trial.metrics, AVERAGE_PRECISION)
    yield _legend(trial)
    if trial.notes:
        yield Notice(title="Caveats", sentences=trial.notes)
    positive_share = (trial.test.positives or 0) / trial.test.rows
    yield _precision_recall(curves.precision_recall, positive_share)
    yield _reliability(curves.calibration)
    yield Text(
        sentences=[
            f"Both charts show {trial.model.selected} on the test days. The calibration chart's axes are square roots."
        ],
        is_fine_print=True,
    )
    yield _calibration(explanation.calibration)
    yield _importances(explanation.importances)
    yield _slices(explanation.slices)
    yield _windows(trial)


def _legend(trial: RowTrial) -> Text:
    top_k, customer = trial.config.evaluation.top_k, trial.config.columns.customer
    unit = f"values of {customer}" if customer else "events"
    sentences = [
        f"Precision at {top_k} is the share of positives among the {top_k} {unit} with the highest scores of a day, "
        "averaged over days; the last column is what a perfect model would reach.",
        "Brackets: 95 % intervals, from a bootstrap of the test rows.",
    ]
    return Text(sentences=sentences, is_fine_print=True)


def _precision_recall(curve: contract.PrecisionRecall, positive_share: float) -> Chart:
    points = list(zip(curve.recall, curve.precision, strict=True))
    random_order = Series(name="random order", style="reference", points=[(0, positive_share), (1, positive_share)])
    return Chart(
        title="Precision and recall",
        x=Axis(label="recall", ticks=SHARES),
        y=Axis(label="precision", ticks=SHARES),
        series=[random_order, Series(name="selected candidate", points=points)],
    )


def _reliability(curve: contract.Calibration) -> Chart:
    """Chart observed over predicted; positives are rare, so small shares have to stay apart."""
    points = list(zip(curve.predicted, curve.observed, strict=True))
    notes = [
        f"{count:,} rows: predicted {predicted:.3g}, observed {observed:.3g}"
        for count, (predicted, observed) in zip(curve.count, points, strict=True)
    ]
    return Chart(
        title="Calibration",
        x=Axis(label="predicted probability", ticks=SMALL_SHARES, scale="sqrt"),
        y=Axis(label="observed share of positives", ticks=SMALL_SHARES, scale="sqrt"),
        series=[
            Series(name="perfect calibration", style="reference", points=[(0, 0), (1, 1)]),
            Series(name="selected candidate", points=points),
            Series(name="score bins", style="points", points=points, notes=notes),
        ],
    )


def _calibration(calibration: CalibrationSummary) -> Facts:
    return Facts(
        facts=[
            Fact(label="Mean score", value=calibration.predicted, format="plain"),
            Fact(label="Share of positives", value=calibration.observed, format="plain"),
            Fact(label="Calibration error", value=calibration.error, format="plain", note="expected, over score bins"),
        ]
    )


def _importances(importances: list[tuple[str, float]]) -> TableBlock:
    columns = [
        TableColumn(title="Input"),
        TableColumn(title="Drop in average precision", format="score", has_bars=True),
    ]
    rows = [Row(cells=[name, drop]) for name, drop in importances]
    return TableBlock(title="Feature importance (permutation)", columns=columns, rows=rows, shown=5)


def _slices(slices: list[Slice]) -> TableBlock:
    columns = [
        TableColumn(title="Slice"),
        TableColumn(title="Rows", format="count"),
        TableColumn(title="Positives", format="count"),
        TableColumn(title="Average precision", format="score"),
    ]
    rows = [Row(cells=[part.name, part.rows, part.positives, part.average_precision]) for part in slices]
    return TableBlock(title="Slices of the test days", columns=columns, rows=rows)


def _windows(trial: RowTrial) -> TableBlock:
    lineage = trial.model.lineage
    seen = {"selection of a candidate": lineage.validation, "final training": lineage.train, "test": trial.test}
    columns = [
        TableColumn(title="Window"),
        TableColumn(title="Days (UTC)"),
        TableColumn(title="Rows", format="count"),
        TableColumn(title="Positives", format="count"),
        TableColumn(title="Share of positives", format="percent"),
    ]
    rows = [
        Row(cells=[name, f"{part.first} to {part.last}", part.rows, part.positives, _share(part)])
        for name, part in seen.items()
    ]
    return TableBlock(title="Windows", columns=columns, rows=rows)


def _share(part: FoldWindow) -> float | None:
    return (part.positives or 0) / part.rows if part.rows else None


def _sure(estimate: BootstrapEstimate) -> Estimate:
    return Estimate(value=estimate.value, low=estimate.low, high=estimate.high)
