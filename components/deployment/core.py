"""What becomes of a new model version."""

from collections.abc import Sequence

from nightshift.contracts.deployment import DeploymentOutcome
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Verdict
from nightshift.registry import promotion
from nightshift.registry.promotion import Move, PromotionCase, PromotionDecision, VersionInfo
from nightshift.registry.release_record import REFERENCE, TRAINED_UNTIL
from nightshift.runtime.errors import UserError
from nightshift.tasks import markdown


def decide(case: PromotionCase) -> PromotionDecision:
    """Decide from the verdicts whether a new version is promoted; see `nightshift/registry/promotion.py`.

    Raises:
        UserError: when a verdict is about another model, or when there is none that could block.
    """
    _check(case.verdicts, case.version)
    return promotion.decide(case)


def outcome(decision: PromotionDecision, champion: VersionInfo | None) -> DeploymentOutcome:
    """Return what becomes of a version, beside the champion before it."""
    if decision.move is Move.PROMOTE:
        return DeploymentOutcome.PROMOTED
    if decision.move is Move.WAIT:
        return DeploymentOutcome.WAITING
    return DeploymentOutcome.KEPT if champion else DeploymentOutcome.REGISTERED


def _check(verdicts: Sequence[Verdict], challenger: VersionInfo) -> None:
    for verdict in verdicts:
        if verdict.subject != challenger.sha256:
            raise UserError(
                f"the verdict of {verdict.gate} is about model {verdict.subject[:8]}, but the model to deploy is "
                f"{challenger.sha256[:8]}; run {verdict.gate} on this model"
            )
    if all(verdict.advisory for verdict in verdicts):
        raise UserError("no verdict decides about a promotion, all are advisory; run the evaluation of this model")


def measures(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Return the measures of the gates that can block."""
    values = {
        measure.name: measure.value for verdict in verdicts if not verdict.advisory for measure in verdict.measures
    }
    return {name: value for name, value in values.items() if value is not None}


def lineage(model: ModelPackage, verdicts: Sequence[Verdict], promise: str) -> dict[str, str]:
    """Return the tags that say where a model came from and how it was judged.

    Args:
        model: the new version.
        verdicts: of every gate.
        promise: the metric that the version is held to later.
    """
    lineage = model.lineage
    tags = {
        "candidate": model.selected,
        "train_first": lineage.train.first,
        TRAINED_UNTIL: lineage.train.last,
        "train_rows": lineage.train.rows,
        "train_positives": lineage.train.positives,
        "events_sha256": lineage.events_sha256,
        "features_sha256": lineage.features_sha256,
        "device": lineage.device,
        "seed": lineage.seed,
        "promise": promise,
        promise: measures(verdicts).get(promise),
        REFERENCE: next((verdict.reference.sha256 for verdict in verdicts if verdict.reference), model.sha256),
    }
    tags |= {verdict.gate: verdict.decision for verdict in verdicts}
    return {key: str(value) for key, value in tags.items() if value is not None}


def with_advice(card: str, verdicts: Sequence[Verdict]) -> str:
    """Return a model card (Markdown) with what the advisory gates said when the model was made."""
    for verdict in verdicts:
        if verdict.advisory:
            lines = markdown.items([markdown.strong(verdict.decision), *verdict.reasons])
            card = f"{card}\n{markdown.section(f'{verdict.gate.capitalize()} at training time', lines)}\n"
    return card
