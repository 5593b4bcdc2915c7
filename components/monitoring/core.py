"""When drift asks for a retraining: the policy, over an audit log with one entry a day."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from nightshift.config.policy import Controller
from nightshift.contracts.drift import FAULTS, Signal

LABELS = "labels"
WEEK = 7


@dataclass(frozen=True)
class Observation:
    """Drift of a day.

    Attributes:
        use_case: whose model it is.
        day: the logical date.
        model_sha256: the model that was looked at.
        signals: of `drift.json`.
    """

    use_case: str
    day: date
    model_sha256: str
    signals: Sequence[Signal]


@dataclass(frozen=True)
class AuditEntry:
    """A day in the audit log.

    Attributes:
        day: YYYY-MM-DD.
        key: the same for a day however often it is looked at, so that a request is carried out once.
        model_sha256: the model that was looked at.
        effects: signal -> effect size, None where it could not be measured.
        raised: signals beyond their limits.
        retrain: whether the day asks for a retraining.
        reason: why, or why not; sentences.
    """

    day: str
    key: str
    model_sha256: str
    effects: dict[str, float | None]
    raised: list[str]
    retrain: bool
    reason: str

    @property
    def has_drifted(self) -> bool:
        """Whether anything is raised that a new model could fix."""
        return bool(set(self.raised) - {*FAULTS})

    @property
    def faults(self) -> list[str]:
        """Signals of a delivery that is at fault."""
        return [name for name in self.raised if name in FAULTS]


def decide(seen: Observation, log: Sequence[AuditEntry], policy: Controller, backfill: bool) -> AuditEntry:
    """Return the audit entry of a day.

    Args:
        seen: the day's drift.
        log: the audit log; only entries before the day are looked at, and a day that has one keeps it.
        policy: the limits, which count the requests in the log and no other retraining.
        backfill: a run for a past day, which never asks.
    """
    day = str(seen.day)
    known = [entry for entry in log if entry.day == day]
    if known:
        return known[0]
    draft = AuditEntry(
        day,
        f"{seen.use_case}/{day}",
        seen.model_sha256,
        {signal.name: signal.value for signal in seen.signals},
        [signal.name for signal in seen.signals if signal.raised],
        retrain=False,
        reason="",
    )
    objection = next(_objections(draft, [entry for entry in log if entry.day < day], policy, backfill), None)
    observations = " ".join(signal.reason for signal in seen.signals if signal.raised)
    reason = objection or f"Retrain: {_days(policy)} have drifted."
    return AuditEntry(**vars(draft) | {"retrain": objection is None, "reason": f"{reason} {observations}".strip()})


def _objections(today: AuditEntry, log: Sequence[AuditEntry], policy: Controller, backfill: bool) -> Iterator[str]:
    """Yield the reasons against a request to retrain, the most informative first."""
    if not today.raised:
        yield "Nothing has drifted."
    if LABELS in today.raised:
        yield "Labels are late: a model trained now would miss the newest positives. Fix the delivery of labels."
    if faults := [name for name in today.faults if name != LABELS]:
        yield f"The delivery looks faulty ({', '.join(faults)}): a model trained now would learn it. Check the source."
    # days of another model say nothing about this one: a retraining starts the count anew
    recent = [entry for entry in _since(log, today, policy.window_days) if entry.model_sha256 == today.model_sha256]
    drifted = 1 + sum(entry.has_drifted for entry in recent)
    if drifted < policy.drifted_days:
        yield f"Not yet: {drifted} drifted, {_days(policy)} are needed."
    yield from _limits([entry for entry in log if entry.retrain], today, policy)
    if backfill:
        yield "A run for a past day never asks."
    if policy.retrain == "daily":
        yield "The schedule retrains every day (controller.retrain is daily)."
    if policy.freeze:
        yield "Frozen (controller.freeze is true)."


def _limits(requests: Sequence[AuditEntry], today: AuditEntry, policy: Controller) -> Iterator[str]:
    cooling = _since(requests, today, policy.cooldown_days + 1)
    if cooling:
        yield f"Cooling down: {cooling[-1].day} asked, and {policy.cooldown_days} days have to pass."
    if len(_since(requests, today, WEEK)) >= policy.max_retrains_per_week:
        yield f"Asked {policy.max_retrains_per_week} times in seven days, which is the limit."


def _since(log: Sequence[AuditEntry], today: AuditEntry, days: int) -> list[AuditEntry]:
    """Return the entries of the last days, today's among the days counted."""
    first = str(date.fromisoformat(today.day) - timedelta(days=days - 1))
    return [entry for entry in log if entry.day >= first]


def _days(policy: Controller) -> str:
    return f"{policy.drifted_days} of {policy.window_days} days"
