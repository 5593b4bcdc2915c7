"""The section of optimization in the run's report: the served variant and GGUF file, and their losses."""

from nightshift.contracts.optimization import ORIGINAL, Attempt, EngineVariant, Optimization
from nightshift.contracts.section import Row, Section, SectionOutcome, TableBlock, TableColumn, Text
from nightshift.contracts.verdict import Verdict

TITLE, WEIGHT = "Optimization", 45


def build(result: Optimization, verdict: Verdict) -> Section:
    """Return the section of an optimization.

    Args:
        result: `optimization.json`.
        verdict: its verdict.
    """
    if len(result.attempts) == 1:  # no other form was asked for, so there is no outcome to show
        blocks = [Text(sentences=verdict.reasons), *_engine_variants(result)]
        return Section(title=TITLE, weight=WEIGHT, blocks=blocks)
    is_changed = result.chosen != ORIGINAL
    outcome = SectionOutcome(
        headline=f"The graph of {result.candidate}: {result.chosen}",
        label="optimized" if is_changed else "unchanged",
        tone="good" if is_changed else "neutral",
        reasons=verdict.reasons,
    )
    return Section(title=TITLE, weight=WEIGHT, outcome=outcome, blocks=[*_forms(result), *_engine_variants(result)])


def _forms(result: Optimization) -> list[TableBlock | Text]:
    columns = [
        TableColumn(title="Form"),
        TableColumn(title="Loss", format="plain"),
        TableColumn(title="Otherwise decided", format="percent"),
        TableColumn(title="Size, bytes", format="count"),
        TableColumn(title="Why"),
    ]
    rows = [_row(attempt, attempt.name == result.chosen) for attempt in result.attempts]
    legend = f"Loss of {result.metric} on {result.rows:,} validation rows, with its paired 95 % interval."
    return [
        TableBlock(title="Forms of the selected graph", columns=columns, rows=rows),
        Text(sentences=[legend], is_fine_print=True),
    ]


def _engine_variants(result: Optimization) -> list[TableBlock | Text]:
    if not result.engine_variants:
        return []
    columns = [
        TableColumn(title="Weights"),
        TableColumn(title="Size, bytes", format="count"),
        TableColumn(title="Bits per byte", format="score"),
        TableColumn(title="Added"),
        TableColumn(title="Tokens/s", format="count"),
        TableColumn(title="Gate"),
        TableColumn(title="Why"),
    ]
    rows = [_variant_row(variant, variant.name == result.engine_variant) for variant in result.engine_variants]
    legend = "Bits per byte of validation texts in llama.cpp; added to those of F16, with the paired 95 % interval."
    return [
        TableBlock(title="Files for engines that generate text", columns=columns, rows=rows),
        Text(sentences=[legend], is_fine_print=True),
    ]


def _variant_row(variant: EngineVariant, is_chosen: bool) -> Row:
    added = variant.added_bits
    # smaller by far than what is written of other estimates
    interval = added and f"{added.value:+z.4f} [{added.low:+z.4f}, {added.high:+z.4f}]"
    figures = [variant.size, variant.bits_per_byte, interval, variant.tokens_per_second]
    cells = [variant.name, *figures, variant.decision, " ".join(variant.reasons)]
    return Row(cells=cells, tag="chosen" if is_chosen else "", tone="good" if is_chosen else "neutral")


def _row(attempt: Attempt, is_chosen: bool) -> Row:
    cells = [attempt.name, attempt.loss, attempt.flipped, attempt.size, attempt.reason]
    return Row(cells=cells, tag="chosen" if is_chosen else "", tone="good" if is_chosen else "neutral")
