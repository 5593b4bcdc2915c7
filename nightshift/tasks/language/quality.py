"""What the evaluation shows of a language model: bits per byte with intervals, on all texts and on parts of them."""

from collections.abc import Iterator
from typing import Any

from nightshift.contracts.evaluation import LanguageEvaluation
from nightshift.contracts.section import Block, Estimate, Fact, Row, TableBlock, TableColumn, Text
from nightshift.contracts.verdict import Measure
from nightshift.markdown import items, page, strong, table
from nightshift.stats.comparison import BootstrapEstimate
from nightshift.tasks.language.metrics import PROMISE, TITLE
from nightshift.tasks.model_cards import identity
from nightshift.tasks.trials import Trial

SHOWN = 10
NOTE = "Brackets: 95 % intervals, from a bootstrap of the test texts by group."


def measure(loss: BootstrapEstimate, limit: float) -> Measure:
    """Return bits per byte as a measure of the verdict."""
    interval = (loss.low, loss.high)
    return Measure(name=PROMISE, value=loss.value, limit=limit, interval=interval, higher_is_better=False)


def highlights(trial: Trial[Any], figures: LanguageEvaluation) -> Iterator[Fact]:
    """Yield what a reader sees first."""
    rival = trial.rival
    theirs = f", champion {rival.value(PROMISE):.3f}" if rival else ""
    value = _estimate(trial.challenger.estimates()[PROMISE])
    yield Fact(label=TITLE, value=value, format="score", note=f"{trial.model.selected}{theirs}")
    left_out = f"{figures.left_out:,} more left out, which have too much in common with training texts"
    yield Fact(label="Test texts", value=figures.test.rows, format="count", note=left_out)
    yield Fact(label="Test bytes", value=figures.bytes, format="count")


def blocks(trial: Trial[Any], figures: LanguageEvaluation) -> Iterator[Block]:
    """Yield all the rest: candidates and champion, then parts of the texts."""
    columns = [TableColumn(title="Candidate"), TableColumn(title=TITLE, format="score")]
    rows = [
        Row(cells=[name, _estimate(candidate.estimates()[PROMISE])], tag="selected" if is_selected else "")
        for name, candidate in trial.candidates.items()
        for is_selected in [name == trial.model.selected]
    ]
    if trial.rival:
        cells = [f"champion, version {trial.rival.version}", _estimate(trial.rival.estimates()[PROMISE])]
        rows.append(Row(cells=cells))
    yield TableBlock(title="Metrics on the test days", columns=columns, rows=rows, is_key=True)
    yield Text(sentences=[NOTE, "Bits of all texts over their bytes: fewer are better."], is_fine_print=True)
    columns = [TableColumn(title="Part"), TableColumn(title="Texts", format="count"), columns[1]]
    parts = [Row(cells=[part.name, part.rows, part.bits_per_byte]) for part in figures.slices]
    yield TableBlock(title="Parts of the test texts", columns=columns, rows=parts, shown=SHOWN)


def render_card(trial: Trial[Any], figures: LanguageEvaluation) -> str:
    """Write the model card, in Markdown; after Mitchell et al., 2019."""
    measured = [
        (strong(name) if name == trial.model.selected else name, str(candidate.estimates()[PROMISE]))
        for name, candidate in trial.candidates.items()
    ]
    parts = [(part.name, f"{part.rows:,}", f"{part.bits_per_byte:.3f}") for part in figures.slices]
    protocol = trial.config.protocol
    limits = [
        f"It was trained on {protocol.train_days} days of texts and measured on {protocol.test_days} later ones.",
        "It writes what texts like these say, be it true or not.",
        f"{figures.left_out:,} texts of the test days have too much in common with training texts and were left out.",
    ]
    sections = {
        "Model": identity(trial.model, trial.config, defaults="recipe"),
        "Metrics on the test days": [*table(("Candidate", TITLE), measured), "", NOTE],
        "Verdict": items([strong(trial.verdict.decision), *trial.verdict.reasons]),
        "Parts": table(("Part", "Texts", TITLE), parts),
        "Limits": items(limits),
    }
    return page(f"Model card: {trial.config.name}, {trial.model.selected}", sections)


def _estimate(estimate: BootstrapEstimate) -> Estimate:
    return Estimate(value=estimate.value, low=estimate.low, high=estimate.high)
