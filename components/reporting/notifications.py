"""What a person may have to know of a run, derived from what its steps left."""

import os
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from components.reporting.core import RunArtifacts
from components.reporting.summary import Summary
from nightshift import storage
from nightshift.config.notify import NightEvent
from nightshift.config.policy import Costs
from nightshift.config.source import EMPTY_DAYS
from nightshift.contracts.deployment import DeploymentOutcome
from nightshift.contracts.notification import Notification
from nightshift.contracts.release_record import Action
from nightshift.contracts.verdict import Decision
from nightshift.costs.spending import USED_UP, Spent, judge
from nightshift.notify.outbox import Night
from nightshift.runtime.telemetry import PIPELINE

FLAGGED = "flagged"  # signal of a flood
LATE_SIGNALS = ("labels", "unlabeled_days")
JUDGED = {
    Decision.UNDECIDED: (NightEvent.HELD, "The new version is held, since the gate is undecided."),
    Decision.FAIL: (NightEvent.REFUSED, "The gate refuses the new version."),
}

Causes = Iterator[tuple[NightEvent, str, str]]  # with subject and sentence


def derive(summary: Summary, artifacts: RunArtifacts, runs: str) -> Night:
    """Return what is to be reported of a run.

    Args:
        summary: of the run.
        artifacts: of its steps: signals, late labels and the release, which the summary leaves out.
        runs: root of the runs, for the report's URI.
    """
    common = {
        "use_case": summary.config["name"],
        "pipeline": summary.pipeline or os.environ.get(PIPELINE) or " ".join(summary.steps),
        "logical_date": summary.logical_date,
    }
    run = {"run": summary.run, "link": _link(summary, runs)}
    notifications = [
        Notification(event=event, subject=subject, sentence=sentence, **common, **run)
        for event, subject, sentence in _list_causes(summary, artifacts)
    ]
    return Night(**common, is_complete=summary.status == "succeeded", notifications=notifications)


def _link(summary: Summary, runs: str) -> str:
    base_url = summary.config["notify"]["base_url"].rstrip("/")
    if base_url:
        return f"{base_url}/runs/{quote(summary.run, safe='')}"
    return storage.join(runs, summary.run, "report.html")


def _list_causes(summary: Summary, artifacts: RunArtifacts) -> Causes:
    yield from _stopped(summary)
    yield from _judged(summary)
    yield from _waits(artifacts)
    signals = _list_raised(artifacts)
    if FLAGGED in signals:
        yield NightEvent.REFUSED, "flood of flags", f"A flood of flags: {signals[FLAGGED]}"
    yield from _drifted(summary, signals)
    yield from _late(artifacts, signals)
    yield from _rolled_back(summary, artifacts)


def _stopped(summary: Summary) -> Causes:
    """Yield why a run is incomplete: its budget, data that has not arrived, or a failure."""
    steps = {name: step for name, step in summary.steps.items() if step.state == "failed"}
    errors = [step.error for step in steps.values() if step.error]
    seconds = sum(step.seconds or 0.0 for step in summary.steps.values())
    verdict = judge(Costs.model_validate(summary.config["costs"]), Spent(seconds, summary.usd))
    if verdict.decision is Decision.FAIL or any(USED_UP in error for error in errors):
        yield NightEvent.BUDGET, "budget", _join([f"The budget {USED_UP}.", *verdict.reasons, *errors])
    elif any(EMPTY_DAYS in error for error in errors):
        yield NightEvent.LATE, "data", _join(["Data has not arrived.", *errors])
    elif summary.status == "failed":
        names = " and ".join(steps)
        title = f"The run failed in {names}." if steps else "The run is incomplete."
        yield NightEvent.FAILED, names or "incomplete", _join([title, *errors])


def _judged(summary: Summary) -> Causes:
    """Yield that a version is held or refused by the gate."""
    verdict = summary.verdicts.evaluation
    if verdict and verdict.decision != "pass":
        event, title = JUDGED[Decision(verdict.decision)]
        yield event, "evaluation", _join([title, *verdict.reasons])


def _waits(artifacts: RunArtifacts) -> Causes:
    """Yield that a version has passed its gates and waits for a person's approval."""
    for section in artifacts.sections:
        outcome = section.outcome
        if outcome and outcome.label == DeploymentOutcome.WAITING:
            # another version, of the next night, is another cause
            yield NightEvent.HELD, outcome.reasons[0], _join(outcome.reasons)


def _list_raised(artifacts: RunArtifacts) -> dict[str, str]:
    """Return the raised signals of scoring and drift -> reason."""
    signals: list[dict[str, Any]] = [
        *artifacts.details("scores").get("signals", []),
        *artifacts.file("drift").get("signals", []),
    ]
    return {signal["name"]: signal["reason"] for signal in signals if signal["raised"]}


def _drifted(summary: Summary, signals: dict[str, str]) -> Causes:
    verdict = summary.verdicts.drift
    reasons = {name: reason for name, reason in signals.items() if name not in (FLAGGED, *LATE_SIGNALS)}
    if verdict and verdict.decision == "fail" and reasons:
        yield NightEvent.DRIFT, ", ".join(reasons), _join([f"Drift of {', '.join(reasons)}.", *reasons.values()])


def _late(artifacts: RunArtifacts, signals: dict[str, str]) -> Causes:
    """Yield that labels are due that have not arrived."""
    unlabeled = artifacts.details("features").get("unlabeled") or {}
    reasons = [signals[name] for name in LATE_SIGNALS if name in signals]
    if unlabeled or reasons:
        days = [f"The labels of {', '.join(unlabeled)} are late."] if unlabeled else []
        yield NightEvent.LATE, "labels", _join([*days, *reasons])


def _rolled_back(summary: Summary, artifacts: RunArtifacts) -> Causes:
    """Yield that this run has ended a version's release."""
    record = artifacts.file("release")
    if record.get("action") == Action.ROLLED_BACK and record["run"] == summary.run:
        champion = record["versions"][0]["version"]
        challenger = record["history"][-1]["versions"][-1]["version"]
        title = f"Version {challenger} is rolled back; version {champion} answers all requests."
        yield NightEvent.ROLLED_BACK, f"version {challenger}", _join([title, *record["reasons"]])


def _join(sentences: Iterable[str]) -> str:
    return " ".join(sentences)
