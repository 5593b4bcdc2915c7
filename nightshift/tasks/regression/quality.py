"""What the evaluation of numbers shows: errors beside naive forecasts, intervals, residuals by slice and over time."""

from collections.abc import Iterator, Sequence

from nightshift.contracts.evaluation import NumberEvaluation, ResidualSummary
from nightshift.contracts.section import Axis, Bars, Block, Chart, Fact, Row, Series, TableBlock, TableColumn, Text
from nightshift.tasks.markdown import items, page, strong, table
from nightshift.tasks.metric_reports import describe_highlight, render_metrics, tabulate_metrics
from nightshift.tasks.model_cards import identity
from nightshift.tasks.regression.judging import NumberTrial
from nightshift.tasks.regression.metrics import MAE, METRICS

SHOWN = 14  # slices before the rest is folded
HEADINGS = ("Mean absolute error", "Bias", "Within the interval")


def highlights(trial: NumberTrial) -> Iterator[Fact]:
    """Yield what a reader sees first."""
    for metric in METRICS:
        if metric.is_headline:
            yield describe_highlight(trial, metric)
    promised = f"{trial.residuals.interval.coverage:.0%} promised"
    yield Fact(label="Within the interval", value=trial.residuals.coverage.value, format="percent", note=promised)
    yield Fact(label="Test rows", value=trial.test.rows, format="count")


def blocks(trial: NumberTrial, figures: NumberEvaluation) -> Iterator[Block]:
    """Yield all the rest."""
    yield tabulate_metrics(trial, METRICS, MAE)
    yield _tabulate_naive(trial)
    yield Text(sentences=list(_explain(trial)), is_fine_print=True)
    yield Bars(
        title="Mean absolute error by test day",
        labels=[day.name for day in figures.days],
        heights=[day.mae for day in figures.days],
        format="plain",
    )
    yield _chart_coverage(figures)
    yield _tabulate("Residuals by test day", "Day", figures.days)
    yield _tabulate("Residuals by slice, the largest error first", "Slice", sorted(figures.slices, key=_order))


def render_card(trial: NumberTrial, figures: NumberEvaluation) -> str:
    """Write the card of a model, in Markdown."""
    cells = [(part.name, f"{part.rows:,}", f"{part.mae:.3f}", f"{part.bias:z.3f}", f"{part.coverage:.1%}")
             for part in sorted(figures.slices, key=_order)]  # fmt: skip
    naive = [
        f"{name}: {MAE.title.lower()} {contender.estimates()[MAE.name]}" for name, contender in trial.naive.items()
    ]
    sections = {
        "Model": identity(trial.model, trial.config, defaults="library"),
        "Verdict": items([strong(trial.verdict.decision), *trial.verdict.reasons]),
        "Metrics on the test days": [*render_metrics(trial, METRICS), "", *_explain(trial)],
        "Naive forecasts": items(naive),
        "Slices": table(("Slice", "Test rows", *HEADINGS), cells),
        "Limits": items(
            [
                f"It was trained on {trial.config.protocol.train_days} days; it has not seen other seasons.",
                "Prediction intervals hold on the whole, not for each series alone.",
            ]
        ),
    }
    return page(f"Model card: {trial.config.name}, {trial.model.selected}", sections)


def _explain(trial: NumberTrial) -> Iterator[str]:
    task, limits, coverage = trial.config.task, trial.config.evaluation, trial.residuals.coverage
    yield "Brackets: 95 % intervals, from a bootstrap of the series, or of the days where there are fewer than 20."
    yield (
        f"Bias is the mean of score less label; pinball loss is of quantile {task.quantile:g}; a row costs "
        f"{limits.cost_over:g} for each unit too high and {limits.cost_under:g} for each too low."
    )
    yield (
        f"Prediction intervals are calibrated on the validation days to cover {trial.residuals.interval.coverage:.0%} "
        f"of the labels; they cover {coverage} of those of the later test days."
    )


def _tabulate_naive(trial: NumberTrial) -> TableBlock:
    columns = [TableColumn(title="Forecast"), *(TableColumn(title=metric.title, format="score") for metric in METRICS)]
    rows = [
        Row(cells=[name, *(contender.figures[metric.name] for metric in METRICS)])
        for name, contender in trial.naive.items()
    ]
    return TableBlock(title="Naive forecasts on the test days", columns=columns, rows=rows)


def _chart_coverage(figures: NumberEvaluation) -> Chart:
    days, promised = range(1, len(figures.days) + 1), figures.coverage_promised
    points = [(float(day), part.coverage) for day, part in zip(days, figures.days, strict=True)]
    last = max(2, len(figures.days))
    return Chart(
        title="Labels within the prediction interval",
        x=Axis(label="test day", ticks=[1, last]),
        y=Axis(label="share", ticks=[0, 0.2, 0.4, 0.6, 0.8, 1]),
        series=[
            Series(name="promised", style="reference", points=[(1, promised), (last, promised)]),
            Series(name="covered", points=points, notes=[f"{part.name}, {part.rows:,} rows" for part in figures.days]),
        ],
    )


def _tabulate(title: str, first: str, parts: Sequence[ResidualSummary]) -> TableBlock:
    columns = [
        TableColumn(title=first),
        TableColumn(title="Test rows", format="count"),
        TableColumn(title=HEADINGS[0], format="plain", has_bars=True),
        TableColumn(title=HEADINGS[1], format="score"),
        TableColumn(title=HEADINGS[2], format="percent"),
    ]
    rows = [Row(cells=[part.name, part.rows, part.mae, part.bias, part.coverage]) for part in parts]
    return TableBlock(title=title, columns=columns, rows=rows, shown=SHOWN)


def _order(part: ResidualSummary) -> float:
    return -part.mae
