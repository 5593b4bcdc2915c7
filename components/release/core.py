"""What becomes of a release: pure functions from the record, verdicts and the time to the record's next state.

    shadow -> canary (a share of the requests after the other) -> live
       any of them -> rolled back: the champion alone

A challenger gets on when the time at its stage is over, no gate objects, and the evidence that it is better suffices:
half of the way to live takes half of it. It is rolled back by any gate that fails, paused or not, and when the
horizon is reached without a decision. A version that was rolled back is not released again by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from nightshift.config.policy import Rollout
from nightshift.contracts.release_record import Action, Entry, Release, ReleasedVersion, Stage
from nightshift.contracts.verdict import Verdict
from nightshift.registry import promotion
from nightshift.registry.promotion import Move, PromotionCase, PromotionDecision, VersionInfo
from nightshift.runtime.errors import UserError

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Moment:
    """Time and author of a decision.

    Attributes:
        now: with its zone.
        by: user.
        run: id of the run; empty when it is done by hand.
    """

    now: datetime
    by: str
    run: str = ""


def start(record: Release, version: ReleasedVersion, at: Moment) -> Entry:
    """Begin to release a version, in shadow.

    Raises:
        UserError: when it is the champion, or another release is under way.
    """
    if version.version == record.live.version:
        raise UserError(f"version {version.version} is the champion of {record.use_case!r}; release another one")
    if record.challenger:
        raise UserError(
            f"version {record.challenger.version} of {record.use_case!r} is being released; "
            "wait for its end, or end it with `nightshift release abort`"
        )
    return record.add_challenger(version, since=at.now, by=at.by, run=at.run)


def advance(record: Release, verdicts: Sequence[Verdict], rollout: Rollout, at: Moment) -> Entry | None:
    """Return the next state of a release that nobody has to approve, None when it stays as it is.

    For arguments and errors see `judge`.
    """
    return follow(record, judge(record, verdicts, rollout, at), rollout, at) if record.challenger else None


def judge(
    record: Release, verdicts: Sequence[Verdict], rollout: Rollout, at: Moment, needs_approval: bool = False
) -> PromotionDecision:
    """Return what becomes of the challenger of a release.

    Args:
        record: as it is, of a release that is under way.
        verdicts: of the challenger, by every gate that has something to judge by.
        rollout: of the config.
        at: the time, and who asks.
        needs_approval: whether a person has to approve it before it is live, and has not.

    Raises:
        UserError: when a verdict is about another model, or compares with another champion.
    """
    for verdict in verdicts:
        _check(verdict, record)
    return promotion.decide(replace(_build_case(record, verdicts, rollout, at), needs_approval=needs_approval))


def follow(record: Release, decision: PromotionDecision, rollout: Rollout, at: Moment) -> Entry | None:
    """Return the state of a release that a decision leads to, None when it stays as it is."""
    challenger = require_challenger(record)
    match decision.move:
        case Move.WITHDRAW:
            return withdraw(record, at, decision.reasons)
        case Move.PROMOTE:
            return _state(at, Action.PROMOTED, Stage.LIVE, [(challenger, 1)], decision.reasons)
        case Move.ADVANCE:
            share = _find_next_share(record, rollout)
            parts = [(record.live, 1 - share), (challenger, share)]
            return _state(at, Action.ADVANCED, Stage.CANARY, parts, decision.reasons)
    return None


def _build_case(record: Release, verdicts: Sequence[Verdict], rollout: Rollout, at: Moment) -> PromotionCase:
    challenger, shares, share = require_challenger(record), [*rollout.shares, 1.0], _find_next_share(record, rollout)
    expired = at.now - start_time(record) >= rollout.horizon_days * DAY
    return PromotionCase(
        VersionInfo.from_record(challenger),
        VersionInfo.from_record(record.live),
        verdicts,
        record.stage,
        is_on_hold=record.paused or at.now - stage_start(record) < rollout.stage_days * DAY,
        horizon_days=rollout.horizon_days if expired else None,
        next_share=share,
        evidence=(shares.index(share) + 1) / len(shares),
    )


def _find_next_share(record: Release, rollout: Rollout) -> float:
    return next(share for share in [*rollout.shares, 1.0] if share > require_challenger(record).traffic)


def withdraw(record: Release, at: Moment, reasons: list[str]) -> Entry:
    """End a release: the champion answers everything.

    Raises:
        UserError: when there is none.
    """
    require_challenger(record)
    return _state(at, Action.ROLLED_BACK, Stage.LIVE, [(record.live, 1)], reasons)


def pause(record: Release, at: Moment) -> Entry | None:
    """Keep a challenger from getting more of the requests; None when it is kept already.

    Raises:
        UserError: when there is no release.
    """
    return _set_paused(record, at, Action.PAUSED)


def resume(record: Release, at: Moment) -> Entry | None:
    """Undo `pause`; None when nothing is paused."""
    return _set_paused(record, at, Action.RESUMED)


def start_time(record: Release) -> datetime:
    """Return when the release that is under way was started."""
    number = require_challenger(record).version
    since = record.since
    for entry in reversed(record.history):
        if entry.challenger is None or entry.challenger.version != number:
            break
        since = entry.since
    return since


def stage_start(record: Release) -> datetime:
    """Return when the challenger got the share that it has."""
    since, challenger = record.since, require_challenger(record)
    for entry in reversed(record.history):
        if entry.challenger != challenger:
            break
        since = entry.since
    return since


def canary_periods(record: Release, now: datetime) -> list[tuple[float, datetime, datetime]]:
    """Return the shares of the requests that the challenger had so far, above 0, and from when until when."""
    start = start_time(record)
    states = [*pairwise(record.entries), (record, record.model_copy(update={"since": now}))]
    return [
        (entry.challenger.traffic, entry.since, after.since)
        for entry, after in states
        if entry.since >= start and entry.challenger and entry.challenger.traffic
    ]


def exposure(record: Release, number: int, rollout: Rollout) -> float:
    """Return the traffic-days that a version had as a challenger, as a share of those of the whole horizon.

    Traffic-days are the sum over days of the share of the requests that it answered; the horizon has `horizon_days`.
    """
    days = sum(
        entry.challenger.traffic * ((after.since - entry.since) / DAY)
        for entry, after in pairwise(record.entries)
        if entry.challenger and entry.challenger.version == number
    )
    return days / rollout.horizon_days


def _set_paused(record: Release, at: Moment, action: Action) -> Entry | None:
    require_challenger(record)
    paused = action is Action.PAUSED
    if record.paused is paused:
        return None
    parts = [(served, served.traffic) for served in record.versions]
    return _state(at, action, record.stage, parts).model_copy(update={"paused": paused})


def _check(verdict: Verdict, record: Release) -> None:
    challenger, other = require_challenger(record), verdict.compared_with
    if verdict.subject != challenger.sha256 or (other and other.sha256 != record.live.sha256):
        raise UserError(
            f"the verdict of {verdict.gate} is not about version {challenger.version} against {record.live.version}, "
            "which is being released by now; run the step again"
        )


def require_challenger(record: Entry) -> ReleasedVersion:
    """Return the version that is being released.

    Raises:
        UserError: when there is none.
    """
    if record.challenger is None:
        raise UserError("no version is being released; `nightshift models` lists the versions")
    return record.challenger


def _state(
    at: Moment,
    action: Action,
    stage: Stage,
    parts: Sequence[tuple[ReleasedVersion, float]],
    reasons: Sequence[str] = (),
) -> Entry:
    versions = [served.model_copy(update={"traffic": float(share)}) for served, share in parts]
    return Entry(
        stage=stage,
        versions=versions,
        action=action,
        since=at.now,
        by=at.by,
        run=at.run,
        reasons=list(reasons),
    )
