"""The section about what a run has cost, and what was left of its budget."""

from components.reporting.summary import Summary
from nightshift.config.policy import Costs
from nightshift.contracts.section import Block, Fact, Row, Section, SectionOutcome, TableBlock, TableColumn, Text
from nightshift.contracts.verdict import Decision, Verdict
from nightshift.costs.spending import HOUR, Spent, judge

WEIGHT = 85
UNPRICED = (
    "No price of these machines is known. Name the machine in the config's costs.machine and, unless the project's "
    "table has it, its dollars an hour in costs.prices."
)
BASIS = (
    "The machine's whole price, for as long as the engine saw the step: its start and all tries, where it says. "
    "Without disks, traffic and this last step."
)


def build(summary: Summary) -> Section:
    """Return the section of a run."""
    costs = Costs.model_validate(summary.config.get("costs", {}))
    finished = {name: step for name, step in summary.steps.items() if step.seconds is not None}
    seconds = sum(step.seconds or 0.0 for step in finished.values())
    verdict = judge(costs, Spent(seconds, summary.usd))
    columns = [
        TableColumn(title="Step"),
        TableColumn(title="Machine"),
        TableColumn(title="Time", format="seconds"),
        TableColumn(title="USD", format="plain", has_bars=summary.usd is not None),
    ]
    rows = [Row(cells=[name, step.machine or "", step.seconds, step.usd]) for name, step in finished.items()]
    total = Fact(label="Cost", value=summary.usd, format="plain", note="USD, of all steps but the report")
    table = TableBlock(title="What each step cost", columns=columns, rows=rows)
    blocks: list[Block] = [table] if any(step.usd is not None for step in finished.values()) else []
    blocks.append(Text(sentences=[BASIS if summary.usd is not None else UNPRICED], is_fine_print=True))
    return Section(
        title="Costs",
        weight=WEIGHT,
        highlights=[total] if summary.usd is not None else [],
        outcome=_outcome(verdict, seconds) if costs.has_budget else None,
        blocks=blocks,
    )


def _outcome(verdict: Verdict, seconds: float) -> SectionOutcome:
    limits = [measure for measure in verdict.measures if measure.limit is not None]
    used = [
        f"{measure.value or 0:.4g} of {measure.limit:.4g} {'USD' if measure.name == 'usd' else 'machine-hours'}"
        for measure in limits
    ]
    is_over = verdict.decision is Decision.FAIL
    return SectionOutcome(
        headline="The budget is used up" if is_over else "The run stayed within its budget",
        label="over budget" if is_over else "within budget",
        tone="bad" if is_over else "good",
        reasons=[f"{' and '.join(used)} after {seconds / HOUR:.2g} h in steps."],
    )
