"""What the evaluation shows on the page of its run: the verdict, and what the task has to say of the model."""

from nightshift.contracts.section import Link, Links, Section, SectionOutcome
from nightshift.tasks.base.evaluation import EvaluationReport

WEIGHT = 20


def build(report: EvaluationReport, card: str) -> Section:
    """Return the section of an evaluation, with the link to the model card, a URI, at its end."""
    link = Links(title="", links=[Link(name="model card", uri=card)], is_key=True)
    return Section(
        title="Model quality",
        weight=WEIGHT,
        outcome=SectionOutcome.from_verdict(report.verdict, f"Evaluation of the new model: {report.verdict.decision}"),
        highlights=report.highlights,
        blocks=[*report.blocks, link],
    )
