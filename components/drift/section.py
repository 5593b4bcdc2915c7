"""What the drift check shows on the page of its run: the largest shifts first."""

from collections.abc import Sequence

from nightshift.contracts.drift import ColumnDrift, DriftReport, Signal
from nightshift.contracts.section import Block, Fact, Link, Links, Row, Section, SectionOutcome, TableBlock, Text
from nightshift.contracts.section import TableColumn as Heading
from nightshift.contracts.verdict import Verdict

WEIGHT = 30
SHOWN = 8
FLOORS = ("labels",)  # signals whose limit is the least they may be


def build(verdict: Verdict, figures: DriftReport, page: str, extremes: Sequence[Block] = ()) -> Section:
    """Return the section of a comparison.

    Args:
        verdict: what the comparison amounts to.
        figures: how far the columns have moved, and the signals.
        page: URI of Evidently's page, empty without one.
        extremes: the least and the most usual rows, of images and texts.
    """
    links = [Links(title="", links=[Link(name="distributions by Evidently", uri=page)], is_key=True)] if page else []
    condition = "stable" if verdict.is_pass else "drifted"
    raised = ", ".join(signal.name for signal in figures.signals if signal.raised)
    highlight = Fact(label="Drift", value=condition, note=raised or "no signal raised")
    # what has changed first: a reader may see the first few only
    raised_first = sorted(figures.signals, key=lambda signal: not signal.raised)
    outcome = SectionOutcome.from_verdict(verdict, "The data is stable" if verdict.is_pass else "The data has drifted")
    return Section(
        title="Drift",
        weight=WEIGHT,
        outcome=outcome.model_copy(update={"reasons": [signal.reason for signal in raised_first]}),
        highlights=[highlight],
        blocks=[
            _describe_windows(figures),
            _effects(figures.columns),
            _signals(figures.signals),
            *extremes,
            *links,
        ],
    )


def _describe_windows(figures: DriftReport) -> Text:
    now, before = figures.window, figures.reference
    return Text(
        sentences=[
            f"{now.rows:,} rows of {now.first} to {now.last} compared with the model's reference, {before.rows:,} "
            f"rows of {before.first} to {before.last}. Largest effect first; less is better. A limit is the "
            "config's, or what days drawn alike show by chance, whichever is larger."
        ]
    )


def _effects(columns: Sequence[ColumnDrift]) -> TableBlock:
    def effect(column: ColumnDrift) -> float:
        return max(column.psi / column.psi_limit, (column.wasserstein or 0) / (column.wasserstein_limit or 1))

    headings = [
        Heading(title="Input"),
        Heading(title="Population stability index", format="score", has_bars=True),
        Heading(title="limit", format="plain"),
        Heading(title="Wasserstein distance (sd)", format="score", has_bars=True),
        Heading(title="limit", format="plain"),
        Heading(title="Mean before", format="plain"),
        Heading(title="Mean now", format="plain"),
    ]
    rows = [
        Row(
            cells=[
                column.name,
                column.psi,
                column.psi_limit,
                column.wasserstein,
                column.wasserstein_limit,
                column.reference_mean,
                column.current_mean,
            ],
            tag="drifted" if column.drifted else "",
            tone="bad" if column.drifted else "neutral",
        )
        for column in sorted(columns, key=effect, reverse=True)
    ]
    moved = sum(column.drifted for column in columns)
    return TableBlock(title=f"Inputs and score, {moved} drifted", columns=headings, rows=rows, shown=SHOWN)


def _describe_bound(signal: Signal) -> str:
    return "at least" if signal.name in FLOORS else "at most"


def _signals(signals: Sequence[Signal]) -> TableBlock:
    headings = [
        Heading(title="Signal"),
        Heading(title="Observation"),
        Heading(title="Effect", format="plain"),
        Heading(title="Good", format="plain"),
        Heading(title="Unit"),
    ]
    rows = [
        Row(
            cells=[
                signal.name,
                signal.reason,
                signal.value,
                f"{_describe_bound(signal)} {signal.limit:.3g}",
                signal.unit,
            ],
            tag="raised" if signal.raised else "",
            tone="bad" if signal.raised else "neutral",
        )
        for signal in signals
    ]
    return TableBlock(title="Signals", columns=headings, rows=rows)
