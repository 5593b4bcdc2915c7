"""What becomes of a release: pure functions from the record, verdicts and the time to the record's next state.

    shadow -> canary (a share of the requests after the other) -> live
       any of them -> rolled back: the champion alone

A challenger gets on when the time at its stage is over, no gate objects, and the evidence that it is better suffices:
half of the way to live takes half of it. It is rolled back by any gate that fails, paused or not, and when the
horizon is reached without a decision. A version that was rolled back is not released again by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from nightshift.config.policy import Rollout
from nightshift.contracts.release import Action, Entry, Release, ReleasedVersion, Stage
from nightshift.contracts.verdict import Decision, Measure, Opponent, Verdict
from nightshift.errors import UserError

if TYPE_CHECKING:
    from nightshift.stats.sequential import Tally

EVIDENCE = "evidence_for"
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


@dataclass(frozen=True)
class Slo:
    """Figures of the requests that a challenger answered.

    Attributes:
        requests: how many.
        errors: how many of them failed.
        p99_ms: 99th percentile of their latency, milliseconds; None without any.
    """

    requests: int
    errors: int
    p99_ms: float | None


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
    """Return the next state of a release, None when it stays as it is.

    Args:
        record: as it is.
        verdicts: of the challenger, by every gate that has something to judge by.
        rollout: of the config.
        at: the time, and who asks.

    Raises:
        UserError: when a verdict is about another model, or compares with another champion.
    """
    if record.challenger is None:
        return None
    for verdict in verdicts:
        _check(verdict, record)
    failed = [reason for verdict in verdicts if verdict.decision is Decision.FAIL for reason in verdict.reasons]
    if failed:
        return withdraw(record, at, failed)
    if at.now - start_time(record) >= rollout.horizon_days * DAY:
        return withdraw(record, at, [f"Nothing was decided within {rollout.horizon_days} days; the champion stays."])
    if record.paused or at.now - stage_start(record) < rollout.stage_days * DAY:
        return None
    return _step(record, verdicts, rollout, at)


def withdraw(record: Release, at: Moment, reasons: list[str]) -> Entry:
    """End a release: the champion answers everything.

    Raises:
        UserError: when there is none.
    """
    _challenger(record)
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
    number = _challenger(record).version
    since = record.since
    for entry in reversed(record.history):
        if entry.challenger is None or entry.challenger.version != number:
            break
        since = entry.since
    return since


def stage_start(record: Release) -> datetime:
    """Return when the challenger got the share that it has."""
    since, challenger = record.since, _challenger(record)
    for entry in reversed(record.history):
        if entry.challenger != challenger:
            break
        since = entry.since
    return since


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


def compare(days: "Sequence[Tally]", record: Entry, rollout: Rollout) -> Verdict:
    """Return what the labels so far say of a challenger against the champion.

    Args:
        days: what each day's labels say, in the order in which they arrived, from the start of the release.
        record: the release.
        rollout: of the config.
    """
    from nightshift.stats import sequential

    better, worse = (float(path[-1]) if days else 0.0 for path in sequential.path(days, rollout.alpha))
    count, champion = sum(day.count for day in days), record.live
    mean = sum(day.total for day in days) / count if count else None
    decision = Decision.FAIL if worse >= 1 else Decision.PASS if better >= 1 else Decision.UNDECIDED
    relations = {
        Decision.FAIL: "worse than",
        Decision.PASS: "better than",
        Decision.UNDECIDED: "not distinguishable yet from",
    }
    number = _challenger(record).version
    return Verdict(
        gate="comparison",
        decision=decision,
        reasons=[f"Version {number} is {relations[decision]} version {champion.version} after {count:,} observations."],
        measures=[
            Measure(name="loss_reduction", value=mean),
            Measure(name=EVIDENCE, value=better, limit=1),
            Measure(name="evidence_against", value=worse, limit=1, higher_is_better=False),
        ],
        subject=_challenger(record).sha256,
        compared_with=Opponent(version=champion.version, sha256=champion.sha256),
    )


def objectives(slo: Slo, record: Entry, rollout: Rollout) -> Verdict:
    """Return whether a challenger answers its requests as fast and as surely as the config wants."""
    number, enough = _challenger(record).version, slo.requests >= rollout.min_requests
    share = slo.errors / slo.requests if slo.requests else None
    kept = [("error_rate", share, rollout.max_error_rate), ("latency_p99_ms", slo.p99_ms, rollout.max_p99_ms)]
    broken = [
        f"{name} {value:g}, limit {limit:g}" for name, value, limit in kept if value is not None and value > limit
    ]
    decision = Decision.UNDECIDED if not enough else Decision.FAIL if broken else Decision.PASS
    violations = f": {'; '.join(broken)}" if decision is Decision.FAIL else ""
    return Verdict(
        gate="objectives",
        decision=decision,
        reasons=[f"Version {number} answered {slo.requests:,} requests{violations}."],
        measures=[Measure(name=name, value=value, limit=limit, higher_is_better=False) for name, value, limit in kept],
        subject=_challenger(record).sha256,
    )


def _step(record: Release, verdicts: Sequence[Verdict], rollout: Rollout, at: Moment) -> Entry | None:
    challenger, shares = _challenger(record), [*rollout.shares, 1.0]
    following = next(share for share in shares if share > challenger.traffic)
    needed = (shares.index(following) + 1) / len(shares)
    if not verdicts or not all(_allows(verdict, needed) for verdict in verdicts):
        return None
    reasons = [reason for verdict in verdicts for reason in verdict.reasons]
    if following == 1:
        return _state(at, Action.PROMOTED, Stage.LIVE, [(challenger, 1)], reasons)
    parts = [(record.live, 1 - following), (challenger, following)]
    return _state(at, Action.ADVANCED, Stage.CANARY, parts, reasons)


def _allows(verdict: Verdict, needed: float) -> bool:
    evidence = verdict.value(EVIDENCE)
    return verdict.is_pass if evidence is None else evidence >= needed


def _set_paused(record: Release, at: Moment, action: Action) -> Entry | None:
    _challenger(record)
    paused = action is Action.PAUSED
    if record.paused is paused:
        return None
    parts = [(served, served.traffic) for served in record.versions]
    return _state(at, action, record.stage, parts).model_copy(update={"paused": paused})


def _check(verdict: Verdict, record: Release) -> None:
    challenger, other = _challenger(record), verdict.compared_with
    if verdict.subject != challenger.sha256 or (other and other.sha256 != record.live.sha256):
        raise UserError(
            f"the verdict of {verdict.gate} is not about version {challenger.version} against {record.live.version}, "
            "which is being released by now; run the step again"
        )


def _challenger(record: Entry) -> ReleasedVersion:
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
