"""Each event goes from what the steps left through the reporting step to a receiver, once for two reports.

What a run leaves differs in one thing: engines with processes on this machine write `run.json`, pods leave their error.
"""

import json
from collections.abc import Callable, Iterator

import pytest

from nightshift import storage
from nightshift.config.notify import NightEvent
from nightshift.config.source import EMPTY_DAYS
from nightshift_testkit.receivers import WebhookReceiver, receiving
from tests.components.reporting.conftest import Sample

pytestmark = pytest.mark.slow  # steps ask git for their version
VARIABLE = "NIGHTSHIFT_NOTIFY_WEBHOOK"
LEAK = "Average precision 1.0 is too good to be true, a feature probably leaks the label."
RECORD = {"action": "rolled_back", "versions": [{"version": 2}], "reasons": ["It loses more."]}


def fail(sample: Sample, error: str) -> None:
    """Have the first step fail: its pod leaves the error, an engine of this machine the record."""
    sample.file("events").unlink()
    sample.executor_input["inputs"]["artifacts"]["events"]["artifacts"][0]["metadata"] = {"error": error}
    if (sample.folder / "run.json").exists():
        record = json.loads((sample.folder / "run.json").read_text())
        record["steps"]["ingestion"] |= {"state": "failed", "error": error}
        sample.change("run.json", **record)


def roll_back(sample: Sample) -> None:
    uri = str(sample.folder / "release" / "release")
    history = [{"versions": [{"version": 2}, {"version": 3}]}]
    storage.write_json(uri, RECORD | {"run": sample.run, "history": history})
    sample.executor_input["inputs"]["artifacts"]["release"] = {"artifacts": [{"uri": uri, "metadata": {}}]}


def flood(sample: Sample) -> None:
    signal = {"name": "flagged", "raised": True, "reason": "90 of 100 events are flagged."}
    sample.change("scores/scores.json", details={"signals": [signal]})


def drift(sample: Sample) -> None:
    signal = {"name": "volume", "raised": True, "reason": "Half of the usual rows."}
    sample.change("drift/drift.json", signals=[signal])
    sample.change("drift/verdict.json", decision="fail")


def spend(sample: Sample) -> None:
    config = json.loads(sample.flags["config"])
    sample.flags["config"] = json.dumps(config | {"costs": {"budget_hours": 1e-6}})


CAUSES: dict[str, tuple[NightEvent, Callable[[Sample], None]]] = {
    "failed": (NightEvent.FAILED, lambda sample: fail(sample, "ingestion: killed for lack of memory")),
    "data is late": (NightEvent.LATE, lambda sample: fail(sample, f"ingestion: no file of the day; {EMPTY_DAYS}")),
    "labels are late": (
        NightEvent.LATE,
        lambda sample: sample.change("features", details={"unlabeled": {"2018-08-07": 9}, "numeric": []}),
    ),
    "held": (NightEvent.HELD, lambda sample: sample.change("evaluation/verdict.json", decision="undecided")),
    "refused for leakage": (
        NightEvent.REFUSED,
        lambda sample: sample.change("evaluation/verdict.json", decision="fail", reasons=[LEAK]),
    ),
    "refused for a flood": (NightEvent.REFUSED, flood),
    "drift": (NightEvent.DRIFT, drift),
    "rolled back": (NightEvent.ROLLED_BACK, roll_back),
    "budget": (NightEvent.BUDGET, spend),
}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookReceiver]:
    with receiving() as receiver:
        monkeypatch.setenv(VARIABLE, receiver.url)
        monkeypatch.setenv("NIGHTSHIFT_PIPELINE", "training")
        yield receiver


def notifying(sample: Sample, steps: str) -> Sample:
    """Return a run with a receiver, as its steps leave it to the last one."""
    config = json.loads(sample.flags["config"])
    receivers = [{"variable": VARIABLE, "digest_minutes": 0}]
    sample.flags["config"] = json.dumps(config | {"notify": {"receivers": receivers}})
    if steps == "pods":
        (sample.folder / "run.json").unlink()
    return sample


@pytest.mark.parametrize("steps", ["processes", "pods"])
@pytest.mark.parametrize("cause", CAUSES)
def test_each_event_arrives_once_whatever_the_steps_ran_as(
    cause: str, steps: str, sample: Sample, receiver: WebhookReceiver
) -> None:
    event, happen = CAUSES[cause]
    happen(notifying(sample, steps))
    for _ in range(2):
        sample.report()
    ((notification,),) = [body["notifications"] for body in receiver.bodies]
    assert (notification["event"], notification["pipeline"]) == (event, "training")


def test_a_good_night_is_reported_to_nobody(sample: Sample, receiver: WebhookReceiver) -> None:
    notifying(sample, "pods").report()
    assert receiver.bodies == []
