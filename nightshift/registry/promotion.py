"""When a version gets more of the requests: one table, for a new version and for one that is being released."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from nightshift.contracts.release_record import ReleasedVersion, Stage
from nightshift.contracts.verdict import Decision, Verdict

EVIDENCE = "evidence_for"


class Move(StrEnum):
    """What happens to a version."""

    KEEP = "keep"  # it stays as it is
    WAIT = "wait"  # the same, until a person has approved it
    START = "start"  # its release begins, in shadow
    ADVANCE = "advance"  # it answers more of the requests
    PROMOTE = "promote"  # it is the champion
    WITHDRAW = "withdraw"  # its release ends, and the champion stays


@dataclass(frozen=True)
class VersionInfo:
    """A registered version, as the decision sees it.

    Attributes:
        version: its number.
        sha256: identity of the model.
        trained_until: last day of its training data, YYYY-MM-DD; empty where it is not known.
        rolled_back: it was taken out of service, by hand or by its release.
    """

    version: int
    sha256: str
    trained_until: str
    rolled_back: bool = False

    @classmethod
    def from_record(cls, served: ReleasedVersion) -> Self:
        """Return a version as the release record names it."""
        return cls(served.version, served.sha256, str(served.trained_until or ""))


@dataclass(frozen=True)
class PromotionCase:
    """What the decision about a version rests on.

    Attributes:
        version: the new version, or the challenger of a release.
        champion: the live version, if there is one.
        verdicts: of every gate; those that are advisory are reported and do not block.
        stage: of the version's release; None for a new version.
        is_on_hold: the run is for a past day, or the release is paused or not long enough at its stage.
        is_gradual: what passes the gates is released in steps.
        in_release: number of the version whose release is under way, if there is one.
        horizon_days: after how many days without a decision the release ends now; None while there is time.
        next_share: share of the requests that a challenger gets next.
        evidence: share of the whole evidence that this takes.
        needs_approval: a person has to approve it before it is live, and has not.
    """

    version: VersionInfo
    champion: VersionInfo | None
    verdicts: Sequence[Verdict]
    stage: Stage | None = None
    is_on_hold: bool = False
    is_gradual: bool = False
    in_release: int | None = None
    horizon_days: int | None = None
    next_share: float = 1.0
    evidence: float = 1.0
    needs_approval: bool = False

    @property
    def blocking(self) -> list[Verdict]:
        """The verdicts that can block."""
        return [verdict for verdict in self.verdicts if not verdict.advisory]

    @property
    def reasons(self) -> list[str]:
        """What the verdicts say that can block."""
        return [reason for verdict in self.blocking for reason in verdict.reasons]

    @property
    def notes(self) -> list[str]:
        """What the advisory verdicts say, a sentence each."""
        return [f"{verdict.gate.capitalize()}: {verdict.decision}." for verdict in self.verdicts if verdict.advisory]


@dataclass(frozen=True)
class PromotionDecision:
    """What happens to a version.

    Attributes:
        move: see `Move`.
        reasons: why, one sentence each.
    """

    move: Move
    reasons: list[str]


def decide(case: PromotionCase) -> PromotionDecision:
    """Return the move of the first rule that applies to a version, with its reasons."""
    rules = NEW if case.stage is None else RELEASED
    decisions = ((move, reasons) for explain, move in rules if (reasons := explain(case)) is not None)
    move, reasons = next(decisions)
    return PromotionDecision(move, [*reasons, *case.notes])


def _is_champion(case: PromotionCase) -> list[str] | None:
    if case.champion is None or case.champion.sha256 != case.version.sha256:
        return None
    return [f"Version {case.champion.version} is already the champion."]


def _is_refused(case: PromotionCase) -> list[str] | None:
    number = case.version.version
    held = f"Version {number} is held for a person; `nightshift promote {number}` takes it as it is."
    objections = [held] if any(verdict.is_held for verdict in case.blocking) else []
    failed = [verdict for verdict in case.blocking if not verdict.is_pass]
    objections += [reason for verdict in failed for reason in verdict.reasons if reason != verdict.caveat]
    if case.version.rolled_back:
        objections.append(f"Version {number} was rolled back; promote it by hand.")
    if case.champion:
        objections += _compare(case.version, case.champion, case.blocking)
    return objections or None


def _compare(version: VersionInfo, champion: VersionInfo, verdicts: Sequence[Verdict]) -> list[str]:
    """Return what speaks against a version beside a champion: its days, and comparisons with another champion."""
    days = (
        f"Promotion needs a data window newer than the champion's: trained until {version.trained_until}, "
        f"version {champion.version} until {champion.trained_until}."
    )
    # without a comparison the gate has said why the champion could not be measured
    outdated = [
        f"The {verdict.gate} compared with version {verdict.compared_with.version}, "
        f"but version {champion.version} is the champion by now; run it again."
        for verdict in verdicts
        if verdict.compared_with and verdict.compared_with.sha256 != champion.sha256
    ]
    return [*([days] if version.trained_until <= champion.trained_until else []), *outdated]


def _is_of_past_day(case: PromotionCase) -> list[str] | None:
    return ["Runs for past days promote nothing; promote it by hand.", *case.reasons] if case.is_on_hold else None


def _awaits_other(case: PromotionCase) -> list[str] | None:
    if not case.is_gradual or case.in_release in (None, case.version.version):
        return None
    return [f"Version {case.in_release} is being released; one at a time.", *case.reasons]


def _is_gradual(case: PromotionCase) -> list[str] | None:
    return [f"Version {case.version.version} is released in steps.", *case.reasons] if case.is_gradual else None


def _has_failed(case: PromotionCase) -> list[str] | None:
    failed = [verdict for verdict in case.blocking if verdict.decision is Decision.FAIL]
    return [reason for verdict in failed for reason in verdict.reasons] or None


def _is_expired(case: PromotionCase) -> list[str] | None:
    days = case.horizon_days
    return None if days is None else [f"Nothing was decided within {days} days; the champion stays."]


def _waits(case: PromotionCase) -> list[str] | None:
    suffices = case.blocking and all(_allows(verdict, case.evidence) for verdict in case.blocking)
    return [] if case.is_on_hold or not suffices else None


def _allows(verdict: Verdict, needed: float) -> bool:
    evidence = verdict.value(EVIDENCE)
    return verdict.is_pass if evidence is None else evidence >= needed


def _has_share_left(case: PromotionCase) -> list[str] | None:
    return case.reasons if case.next_share < 1 else None


def _needs_approval(case: PromotionCase) -> list[str] | None:
    number = case.version.version
    waits = f"Version {number} waits for an approval; `nightshift approve {number} --reason ...` gives it."
    return [waits, *case.reasons] if case.needs_approval else None


def _passes(case: PromotionCase) -> list[str] | None:
    return case.reasons


# tried in order: (the condition, which returns its reasons or None where it does not hold, and what follows)
Rules = Sequence[tuple[Callable[[PromotionCase], list[str] | None], Move]]
NEW: Rules = (
    (_is_champion, Move.KEEP),
    (_is_refused, Move.KEEP),
    (_is_of_past_day, Move.KEEP),
    (_awaits_other, Move.KEEP),
    (_is_gradual, Move.START),
    (_needs_approval, Move.WAIT),
    (_passes, Move.PROMOTE),
)
RELEASED: Rules = (
    (_has_failed, Move.WITHDRAW),
    (_is_expired, Move.WITHDRAW),
    (_waits, Move.KEEP),
    (_has_share_left, Move.ADVANCE),
    (_needs_approval, Move.WAIT),
    (_passes, Move.PROMOTE),
)
