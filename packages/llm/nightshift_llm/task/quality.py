"""The evaluation's report on a language model: bits per byte with intervals, on all texts and on slices."""

from collections.abc import Iterator
from typing import Any

from nightshift.contracts.section import Block, Estimate, Fact, Row, TableBlock, TableColumn, Text
from nightshift.contracts.verdict import Measure
from nightshift.tasks.markdown import items, page, strong, table
from nightshift.tasks.metric_reports import describe_highlight, render_metrics, tabulate_metrics
from nightshift.tasks.model_cards import identity
from nightshift.tasks.trials import Trial
from nightshift_llm.contracts.evaluation import LanguageEvaluation, Memorization, MemorizedShare
from nightshift_llm.task.metrics import BITS_PER_BYTE

SHOWN = 10
NOTE = "Brackets: 95 % intervals, from a bootstrap of the test texts by group."


def measure_memorized(share: MemorizedShare, limit: float | None) -> Measure:
    """Return the share of memorized passages as a measure of the verdict."""
    return Measure(name="memorized", value=share.share, limit=limit, interval=share.interval, higher_is_better=False)


def refuse_memorized(memorized: Memorization, limit: float | None) -> list[str]:
    """Return why a model that has memorized too much is refused; nothing without a limit."""
    share = memorized.shares[0]
    if limit is None or share.share <= limit:
        return []
    low, high = share.interval
    return [
        f"It reproduces {share.share:.1%} [{low:.1%}, {high:.1%}] of {share.passages} training passages verbatim, "
        f"above {limit:.1%}."
    ]


def explain_unmeasured(memorized: Memorization | None, limit: float | None) -> list[str]:
    """Return why a limit on memorization could not be checked; nothing without a limit, or if it was measured."""
    if limit is None or memorized is not None:
        return []
    return ["No training text is long enough to measure memorization; leave max_memorized out, or lower task.length."]


def highlights(trial: Trial[Any], figures: LanguageEvaluation) -> Iterator[Fact]:
    """Yield the headline facts."""
    yield describe_highlight(trial, BITS_PER_BYTE)
    left_out = f"{figures.left_out:,} more left out, which have too much in common with training texts"
    yield Fact(label="Test texts", value=figures.test.rows, format="count", note=left_out)
    yield Fact(label="Test bytes", value=figures.bytes, format="count")


def blocks(trial: Trial[Any], figures: LanguageEvaluation) -> Iterator[Block]:
    """Yield the details: candidates and champion, then slices of the texts."""
    yield tabulate_metrics(trial, [BITS_PER_BYTE], BITS_PER_BYTE)
    yield Text(sentences=[NOTE, "Bits of all texts divided by their bytes: lower is better."], is_fine_print=True)
    columns = [TableColumn(title="Part"), TableColumn(title="Texts", format="count")]
    columns.append(TableColumn(title=BITS_PER_BYTE.title, format=BITS_PER_BYTE.format))
    parts = [Row(cells=[part.name, part.rows, part.bits_per_byte]) for part in figures.slices]
    yield TableBlock(title="Parts of the test texts", columns=columns, rows=parts, shown=SHOWN)
    if figures.memorization:
        yield from _show_memorization(figures.memorization)


def _show_memorization(memorized: Memorization) -> Iterator[Block]:
    columns = [TableColumn(title="Texts"), TableColumn(title="Passages", format="count")]
    rows = [
        Row(cells=[part.name, part.passages, Estimate(value=part.share, low=part.interval[0], high=part.interval[1])])
        for part in memorized.shares
    ]
    columns.append(TableColumn(title="Memorized", format="percent"))
    yield TableBlock(title="Memorized passages", columns=columns, rows=rows, shown=SHOWN)
    note = f"Memorized: greedy decoding after {memorized.tokens} tokens of a text gives the next {memorized.tokens}."
    yield Text(sentences=[note], is_fine_print=True)


def render_card(trial: Trial[Any], figures: LanguageEvaluation) -> str:
    """Write the model card, in Markdown; after Mitchell et al., 2019."""
    parts = [(part.name, f"{part.rows:,}", f"{part.bits_per_byte:.3f}") for part in figures.slices]
    protocol = trial.config.protocol
    limits = [
        f"It was trained on {protocol.train_days} days of texts and measured on {protocol.test_days} later ones.",
        "It writes text like its training texts, whether true or not.",
        f"{figures.left_out:,} texts of the test days have too much in common with training texts and were left out.",
    ]
    sections = {
        "Model": identity(trial.model, trial.config, defaults="recipe"),
        "Metrics on the test days": [*render_metrics(trial, [BITS_PER_BYTE]), "", NOTE],
        "Verdict": items([strong(trial.verdict.decision), *trial.verdict.reasons]),
        "Parts": table(("Part", "Texts", BITS_PER_BYTE.title), parts),
        "Memorized passages": _tabulate_memorization(figures.memorization),
        "Limits": items(limits),
    }
    return page(f"Model card: {trial.config.name}, {trial.model.selected}", sections)


def _tabulate_memorization(memorized: Memorization | None) -> list[str]:
    if not memorized:
        return ["No training text is long enough."]
    rows = [
        (part.name, f"{part.passages:,}", f"{part.share:.1%} [{part.interval[0]:.1%}, {part.interval[1]:.1%}]")
        for part in memorized.shares
    ]
    return table(("Texts", "Passages", "Memorized"), rows)
