"""What of a run a person is notified of."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.reporting import core, notifications
from components.reporting.core import RunArtifacts, RunHeader
from nightshift.config import parse
from nightshift.config.notify import NightEvent
from nightshift.config.source import EMPTY_DAYS
from nightshift.contracts.section import Section, SectionOutcome
from nightshift.notify.outbox import Night

CONFIG = yaml.safe_load((Path(__file__).parents[3] / "pipelines" / "configs" / "handbook.yaml").read_text())
FAILED = {"state": "failed", "seconds": 3600.0}
VERDICT = {"reasons": ["Average precision 1.0 is too good to be true, a feature probably leaks the label."]}
FLOOD = {"name": "flagged", "raised": True, "reason": "90 of 100 events are flagged."}
VOLUME = {"name": "volume", "raised": True, "reason": "Half of the usual rows."}
CALM = {"name": "score", "raised": False, "reason": "As it was."}
SERVED = [{"version": 2}, {"version": 3}]
WITHDRAWN = {
    "action": "rolled_back",
    "run": "r",
    "versions": [{"version": 2}],
    "reasons": ["It loses more."],
    "history": [{"versions": SERVED}],
}


def derive(
    files: dict[str, Any], record: dict[str, Any] | None = None, sections: Sequence[Section] = (), **config: Any
) -> Night:
    """Derive from a run whose steps left these files, all the others without anything to say."""
    parsed = parse(CONFIG | config)
    head = RunHeader("r", date(2018, 8, 14), "cpu", "simulator", parsed, "0.3.0", datetime.now(UTC))
    names = {"events": "a", **{name.partition("_")[0]: name for name in files}}
    uris = {name: f"s3://runs/r/{name}/{name}" for name in names if name != "verdict"}
    steps = {"steps": {"events": record or {"state": "done"}}, "pipeline": "training"}
    done = {} if record else {"events": {}}
    artifacts = RunArtifacts(uris, done | files, sections=list(sections), record=steps)
    return notifications.derive(core.summarize(head, artifacts), artifacts, "s3://runs")


@pytest.mark.parametrize(
    ("files", "event", "subject", "part"),
    [
        ({"verdict": VERDICT | {"decision": "fail"}}, NightEvent.REFUSED, "evaluation", "leaks the label"),
        ({"verdict": VERDICT | {"decision": "undecided"}}, NightEvent.HELD, "evaluation", "is held"),
        ({"scores": {"details": {"signals": [FLOOD, CALM]}}}, NightEvent.REFUSED, "flood of flags", "90 of 100"),
        ({"features": {"details": {"unlabeled": {"2018-08-07": 9}}}}, NightEvent.LATE, "labels", "2018-08-07"),
        ({"release": WITHDRAWN}, NightEvent.ROLLED_BACK, "version 3", "version 2 answers all requests"),
        (
            {
                "drift": {"signals": [VOLUME, CALM], "drifted_share": 0.0},
                "drift_verdict": {"decision": "fail", "reasons": []},
            },
            NightEvent.DRIFT,
            "volume",
            "Half of the usual rows",
        ),
    ],
)
def test_what_the_steps_left_is_reported(files, event, subject, part):
    (notification,) = derive(files).notifications
    assert (notification.event, notification.subject, notification.pipeline) == (event, subject, "training")
    assert part in notification.sentence
    assert notification.link == "s3://runs/r/report.html"


@pytest.mark.parametrize(
    ("error", "config", "event", "subject"),
    [
        ("ingestion: out of memory", {}, NightEvent.FAILED, "ingestion"),
        (f"ingestion: no file of the day; {EMPTY_DAYS}", {}, NightEvent.LATE, "data"),
        ("ingestion: The budget of 1 USD is used up.", {}, NightEvent.BUDGET, "budget"),
        ("ingestion: killed", {"costs": {"budget_hours": 0.5}}, NightEvent.BUDGET, "budget"),
    ],
)
def test_a_run_that_stopped_is_reported_once_by_its_cause(error, config, event, subject):
    night = derive({}, FAILED | {"error": error}, **config)
    (notification,) = night.notifications
    assert (notification.event, notification.subject, night.is_complete) == (event, subject, False)
    assert error in notification.sentence


def test_a_version_that_waits_for_an_approval_is_reported_and_the_next_one_is_another_cause() -> None:
    causes = set()
    for number in (7, 8):
        reasons = [f"Version {number} waits for an approval; `nightshift approve {number} --reason ...` gives it."]
        outcome = SectionOutcome(headline="Version 6 stays.", label="waiting", reasons=reasons)
        (notification,) = derive({}, sections=[Section(title="Release", weight=1, outcome=outcome)]).notifications
        assert (notification.event, notification.sentence) == (NightEvent.HELD, reasons[0])
        causes.add(notification.cause)
    assert len(causes) == 2


def test_of_a_good_night_nobody_is_notified() -> None:
    earlier = WITHDRAWN | {"run": "of yesterday"}
    night = derive({"verdict": VERDICT | {"decision": "pass"}, "release": earlier})
    assert (night.notifications, night.is_complete) == ([], True)


def test_the_link_is_the_page_of_the_ui_where_its_url_is_known() -> None:
    night = derive({"release": WITHDRAWN}, notify={"base_url": "https://nights.example.com/"})
    assert night.notifications[0].link == "https://nights.example.com/runs/r"
