"""What becomes of a new model version."""

from collections.abc import Sequence
from dataclasses import dataclass

from nightshift.contracts.deployment import DeploymentOutcome
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Verdict
from nightshift.registry.release_record import REFERENCE, TRAINED_UNTIL
from nightshift.runtime.errors import UserError
from nightshift.tasks import markdown


@dataclass(frozen=True)
class VersionInfo:
    """A registered version, as the decision sees it.

    Attributes:
        version: its number.
        sha256: identity of the model.
        trained_until: last day of its training data, YYYY-MM-DD.
        rolled_back: it was taken out of service, by hand or by its release.
    """

    version: int
    sha256: str
    trained_until: str
    rolled_back: bool = False


@dataclass(frozen=True)
class DeploymentDecision:
    """What becomes of a new version.

    Attributes:
        outcome: see `DeploymentOutcome`.
        reasons: why, one sentence each.
    """

    outcome: DeploymentOutcome
    reasons: list[str]


def decide(challenger: VersionInfo, champion: VersionInfo | None, verdicts: Sequence[Verdict]) -> DeploymentDecision:
    """Decide from the verdicts whether a version is promoted; those that are advisory are reported and do not block.

    Args:
        challenger: the new version.
        champion: the live version, if there is one.
        verdicts: of every gate, whoever has written them.

    Raises:
        UserError: when a verdict is about another model, or when there is none that could block.
    """
    _check(verdicts, challenger)
    notes = [f"{verdict.gate.capitalize()}: {verdict.decision}." for verdict in verdicts if verdict.advisory]
    if champion and champion.sha256 == challenger.sha256:
        return DeploymentDecision(
            DeploymentOutcome.KEPT, [f"Version {champion.version} is already the champion.", *notes]
        )
    blocking = [verdict for verdict in verdicts if not verdict.advisory]
    objections = _objections(challenger, champion, blocking)
    if not objections:
        reasons = [reason for verdict in blocking for reason in verdict.reasons]
        return DeploymentDecision(DeploymentOutcome.PROMOTED, [*reasons, *notes])
    return DeploymentDecision(
        DeploymentOutcome.KEPT if champion else DeploymentOutcome.REGISTERED, [*objections, *notes]
    )


def _check(verdicts: Sequence[Verdict], challenger: VersionInfo) -> None:
    for verdict in verdicts:
        if verdict.subject != challenger.sha256:
            raise UserError(
                f"the verdict of {verdict.gate} is about model {verdict.subject[:8]}, but the model to deploy is "
                f"{challenger.sha256[:8]}; run {verdict.gate} on this model"
            )
    if all(verdict.advisory for verdict in verdicts):
        raise UserError("no verdict decides about a promotion, all are advisory; run the evaluation of this model")


def withhold_promotion(decision: DeploymentDecision, has_champion: bool) -> DeploymentDecision:
    """Return the decision where nothing may be promoted, as in a backfill."""
    if decision.outcome is not DeploymentOutcome.PROMOTED:
        return decision
    reasons = ["Runs for past days promote nothing; promote it by hand.", *decision.reasons]
    return DeploymentDecision(DeploymentOutcome.KEPT if has_champion else DeploymentOutcome.REGISTERED, reasons)


def in_steps(decision: DeploymentDecision, challenger: VersionInfo, released: int | None) -> DeploymentDecision:
    """Return the decision where a promotion is released in steps.

    Args:
        decision: the promotion.
        challenger: the new version.
        released: number of the version whose release is under way, if there is one.
    """
    if released in (None, challenger.version):
        return DeploymentDecision(
            DeploymentOutcome.KEPT, [f"Version {challenger.version} is released in steps.", *decision.reasons]
        )
    waiting = f"Version {released} is being released; one at a time."
    return DeploymentDecision(DeploymentOutcome.KEPT, [waiting, *decision.reasons])


def _objections(challenger: VersionInfo, champion: VersionInfo | None, verdicts: Sequence[Verdict]) -> list[str]:
    """Return why a version may not be promoted; nothing when it may."""
    number = challenger.version
    held = f"Version {number} is held for a person; `nightshift promote {number}` takes it as it is."
    objections = [held] if any(verdict.is_held for verdict in verdicts) else []
    failed = [verdict for verdict in verdicts if not verdict.is_pass]
    objections += [reason for verdict in failed for reason in verdict.reasons if reason != verdict.caveat]
    if challenger.rolled_back:
        objections.append(f"Version {challenger.version} was rolled back; promote it by hand.")
    if not champion:
        return objections
    if challenger.trained_until <= champion.trained_until:
        objections.append(
            f"Promotion needs a data window newer than the champion's: trained until {challenger.trained_until}, "
            f"version {champion.version} until {champion.trained_until}."
        )
    # without a comparison the gate has said why the champion could not be measured
    objections += [
        f"The {verdict.gate} compared with version {verdict.compared_with.version}, "
        f"but version {champion.version} is the champion by now; run it again."
        for verdict in verdicts
        if verdict.compared_with and verdict.compared_with.sha256 != champion.sha256
    ]
    return objections


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
