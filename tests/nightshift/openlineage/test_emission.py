"""What a step reports to a receiver of lineage: a real HTTP server, in a process of the test or another."""

import json
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nightshift.contracts import verdict
from nightshift.contracts.tables import Table, write_partition, write_table
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.openlineage.emission import EventSender
from nightshift.openlineage.events import RunEvents
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import PreemptedError, UserError
from nightshift.runtime.flags import CONFIG, MODEL, STATE, StepContract, StepInput, StepOutput, StepParameter
from nightshift.runtime.identity import RunIdentity
from nightshift.runtime.observers import observe_run, observe_step
from nightshift_testkit.collectors import Collector, collecting
from nightshift_testkit.processes import SECONDS
from nightshift_testkit.s3 import bucket, reached_at
from nightshift_testkit.servers import free_port
from pipelines import configs
from pipelines.environments import local
from tests.nightshift.openlineage.schema import check_event

pytestmark = pytest.mark.slow  # steps ask git for their version
TASK, DAG = "01941f29-7c00-7087-8940-40e513c257bd", "01941f29-7c00-7087-8940-40e513c257be"
DAY = date(2025, 6, 30)
DATA = StepParameter("data", str, "raw rows")
CONTRACTS = {
    "ingestion": StepContract("ingestion", "Reads.", (CONFIG, STATE, DATA, StepOutput("events", "Dataset", "URI"))),
    "evaluation": StepContract(
        "evaluation", "Judges.", (CONFIG, STATE, MODEL, StepOutput("evaluation", "Artifact", "URI"))
    ),
    "features": StepContract(
        "features",
        "Computes.",
        (CONFIG, STATE, StepInput("events", "Dataset", "URI"), StepOutput("features", "Dataset", "URI")),
    ),
}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
        monkeypatch.setenv("NIGHTSHIFT_PIPELINE", "training")
        yield collector


class Night:
    """A run's folder, in which steps of the test work."""

    def __init__(self, folder: str) -> None:
        self.folder, self.root = folder, f"{folder}/runs/fraud-training-1"

    def work(self, step: str, body: Callable[[], Any], inputs: dict[str, str] | None = None) -> None:
        contract = CONTRACTS[step]
        outputs = [field.name for field in contract.fields if isinstance(field, StepOutput)]
        executor_input = {
            "inputs": {"artifacts": {name: {"artifacts": [{"uri": uri}]} for name, uri in (inputs or {}).items()}},
            "outputs": {"artifacts": {name: {"artifacts": [{"uri": self.uri(step, name)}]} for name in outputs}},
        }
        config, state = json.dumps(configs.load("fraud")), json.dumps(local(Path("/work")).dump())
        flags = {"executor_input": executor_input, "config": config, "state": state, "data": "simulator"}
        with observe_step(contract.parser(), StepContext(Namespace(**flags))):
            body()

    def uri(self, step: str, output: str) -> str:
        return f"{self.root}/{step}/{output}"

    def write_events(self) -> None:
        """Leave a table of two rows, of three that were read."""
        frame = pd.DataFrame({"event_id": [1, 2], "amount": [1.5, 2.5]})
        partition = write_partition(f"{self.folder}/lake/fraud/events/date={DAY}/a.parquet", DAY, frame, {})
        details = {"read": 3, "quarantined": {"amount_missing": 1}}
        write_table(self.uri("ingestion", "events"), Table("events", [partition], details))


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Night:
    monkeypatch.setenv("NIGHTSHIFT_LINEAGE_STARTED", "2025-07-01T02:00:00+00:00")
    return Night(str(tmp_path))


def test_a_step_reports_its_start_and_its_end_with_what_it_has_written(collector: Collector, night: Night) -> None:
    night.work("ingestion", night.write_events)

    start, complete = collector.events
    for event in collector.events:
        check_event(event)
    assert [event["eventType"] for event in collector.events] == ["START", "COMPLETE"]
    assert start["job"] | {"facets": {}} == {
        "namespace": "nightshift",
        "name": "fraud.training.ingestion",
        "facets": {},
    }
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["outputs"] == []
    (events,) = complete["outputs"]
    assert (events["namespace"], events["name"]) == ("file", f"{night.folder}/lake/fraud/events")
    statistics = events["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (2, 1)
    columns = [(field["name"], field["type"]) for field in events["facets"]["schema"]["fields"]]
    assert columns == [("event_id", "int64"), ("amount", "double")]


@pytest.mark.slow
def test_a_table_in_a_bucket_is_read_there(collector: Collector) -> None:
    with bucket() as url, reached_at(url):
        night = Night("s3://lake/work")
        night.work("ingestion", night.write_events)

    (events,) = collector.events[-1]["outputs"]
    assert (events["namespace"], events["name"]) == ("s3://lake", "work/lake/fraud/events")
    assert [field["name"] for field in events["facets"]["schema"]["fields"]] == ["event_id", "amount"]


def test_rows_in_quarantine_are_an_assertion_on_what_was_read(collector: Collector, night: Night) -> None:
    night.work("ingestion", night.write_events)

    (raw,) = collector.events[-1]["inputs"]
    (assertion,) = raw["inputFacets"]["dataQualityAssertions"]["assertions"]
    named = {name: assertion[name] for name in ("assertion", "success", "expected", "actual")}
    assert named == {"assertion": "amount_missing", "success": False, "expected": "0", "actual": "1"}


def test_what_one_step_writes_is_by_the_same_name_and_version_what_the_next_one_reads(
    collector: Collector, night: Night
) -> None:
    night.work("ingestion", night.write_events)
    night.work("features", lambda: None, {"events": night.uri("ingestion", "events")})

    written, read = collector.events[1]["outputs"][0], collector.events[2]["inputs"][0]
    assert (written["namespace"], written["name"]) == (read["namespace"], read["name"])
    assert written["facets"]["version"] == read["facets"]["version"]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 2


def test_a_gates_verdict_and_measures_are_assertions_on_the_model(collector: Collector, night: Night) -> None:
    measures = [Measure(name="average_precision", value=0.2, limit=0.3), Measure(name="positives", value=9.0)]
    judged = Verdict(gate="evaluation", decision=Decision.FAIL, reasons=["Too low."], measures=measures, subject="")

    night.work(
        "evaluation",
        lambda: judged.write(f"{night.uri('evaluation', 'evaluation')}/{verdict.FILE}"),
        {"features": night.uri("features", "features"), "model": night.uri("training", "model")},
    )

    check_event(collector.events[-1])
    subjects = [entry for entry in collector.events[-1]["inputs"] if "dataQualityAssertions" in entry["inputFacets"]]
    (model,) = subjects
    assert model["name"] == f"{night.folder}/runs/fraud/training/training/model"
    assertions = model["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [(one["name"], one["success"], one["actual"]) for one in assertions] == [
        ("gate.evaluation", False, "fail"),
        ("evaluation.average_precision", False, "0.2"),
    ]


def fail_with(error: BaseException) -> Callable[[], Any]:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "kind"),
    [(UserError("date is wrong"), "FAIL"), (ValueError("a bug"), "FAIL"), (PreemptedError("a node ends"), "ABORT")],
)
def test_a_step_that_ends_early_says_why(collector: Collector, night: Night, error: Exception, kind: str) -> None:
    with pytest.raises(type(error)):
        night.work("ingestion", fail_with(error))

    event = collector.events[-1]
    check_event(event)
    facet = event["run"]["facets"]["errorMessage"]
    assert (event["eventType"], facet["message"], event["outputs"]) == (kind, str(error), [])


def test_no_event_holds_a_secret(collector: Collector, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTSHIFT_DATABASE_PASSWORD", "hunter2-hunter2")
    error = UserError("postgresql://me:swordfish@db/risk: login with hunter2-hunter2 failed\n\x1b[31m")

    with pytest.raises(UserError):
        night.work("ingestion", fail_with(error))

    sent = json.dumps(collector.events)
    assert "swordfish" not in sent and "hunter2" not in sent
    assert collector.events[-1]["run"]["facets"]["errorMessage"]["message"] == (
        "postgresql://***@db/risk: login with *** failed\n\\x1b[31m"
    )


def test_the_parent_is_the_nights_run_and_every_step_knows_it(collector: Collector, night: Night) -> None:
    def run() -> bool:
        night.work("ingestion", night.write_events)
        night.work("features", lambda: None, {"events": night.uri("ingestion", "events")})
        return True

    assert observe_run(RunIdentity("fraud", "training", night.root), run)

    first, *steps, last = collector.events
    assert (first["eventType"], last["eventType"], first["job"]["name"]) == ("START", "COMPLETE", "fraud.training")
    parents = [event["run"]["facets"]["parent"] for event in steps]
    assert {parent["run"]["runId"] for parent in parents} == {first["run"]["runId"]}
    assert {parent["job"]["name"] for parent in parents} == {"fraud.training"}
    assert len({event["run"]["runId"] for event in steps}) == 2


def test_a_night_whose_step_fails_has_failed(collector: Collector, night: Night) -> None:
    assert not observe_run(RunIdentity("fraud", "training", night.root), lambda: False)

    check_event(collector.events[-1])
    assert [event["eventType"] for event in collector.events] == ["START", "FAIL"]


def test_a_night_that_is_interrupted_is_aborted(collector: Collector, night: Night) -> None:
    with pytest.raises(KeyboardInterrupt):
        observe_run(RunIdentity("fraud", "training", night.root), fail_with(KeyboardInterrupt()))

    assert [event["eventType"] for event in collector.events] == ["START", "ABORT"]


def test_an_orchestrators_run_is_the_parent_instead(
    collector: Collector, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"prod/fraud_training.ingestion/{TASK}")
    monkeypatch.setenv("OPENLINEAGE_ROOT_PARENT_ID", f"prod/fraud_training/{DAG}")

    night.work("ingestion", night.write_events)

    parent = collector.events[0]["run"]["facets"]["parent"]
    assert (parent["job"]["namespace"], parent["job"]["name"]) == ("prod", "fraud_training.ingestion")
    assert (parent["run"]["runId"], parent["root"]["run"]["runId"]) == (TASK, DAG)


@pytest.mark.parametrize(
    "text", ["", "prod", "prod/dag", "prod/dag/not-a-uuid", "//01941f29-7c00-7087-8940-40e513c257bd"]
)
def test_a_parent_that_is_none_is_ignored(
    collector: Collector, night: Night, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", text)

    night.work("ingestion", night.write_events)

    assert collector.events[0]["run"]["facets"]["parent"]["job"]["name"] == "fraud.training"


def test_a_retry_is_a_run_of_its_own_and_one_try_is_one_run(
    collector: Collector, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    for started in ("2025-07-01T02:00:00+00:00", "2025-07-01T02:00:00+00:00", "2025-07-01T02:05:00+00:00"):
        monkeypatch.setenv("NIGHTSHIFT_LINEAGE_STARTED", started)
        night.work("ingestion", night.write_events)

    ids = [event["run"]["runId"] for event in collector.events]
    assert len(set(ids[:4])) == 1
    assert ids[4] == ids[5] != ids[0]


def test_a_receiver_that_refuses_is_a_line_in_the_log(
    collector: Collector, night: Night, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 403

    night.work("features", lambda: None)

    assert len(caplog.records) == 2
    assert all("OpenLineage's receiver lacks an event: 403" in record.message for record in caplog.records)


@pytest.mark.parametrize("fault", ["down", "silent", "broken"])
def test_a_receiver_that_does_not_answer_is_waited_for_a_moment_and_not_more(
    collector: Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    collector.is_silent, collector.status = fault == "silent", 500 if fault == "broken" else 200
    if fault == "down":
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{free_port()}")
    started = time.monotonic()

    sender, events = EventSender(seconds=0.2), RunEvents(RunIdentity("fraud", "training", "/runs/1"))
    sender.send(events.start)
    sender.send(events.complete)

    assert time.monotonic() - started < SECONDS
    assert [record.message for record in caplog.records if record.name == "nightshift"] == [
        "OpenLineage's receiver does not answer within 0.2 s; an event may be lost"
    ] * 2


def test_a_transport_that_does_not_exist_is_a_line_in_the_log(
    night: Night, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "pigeon")

    night.work("features", lambda: None)

    ours = [record.message for record in caplog.records if record.name == "nightshift"]
    assert len(ours) == 2
    assert all("OpenLineage's receiver lacks an event" in line and "pigeon" in line for line in ours)


def test_a_broken_manifest_or_parquet_file_costs_no_step(
    collector: Collector, night: Night, caplog: pytest.LogCaptureFixture
) -> None:
    def body() -> None:
        night.write_events()
        Path(night.folder, f"lake/fraud/events/date={DAY}/a.parquet").write_bytes(b"no Parquet")

    night.work("ingestion", body)

    assert [event["eventType"] for event in collector.events] == ["START"]
    assert "OpenLineage's receiver lacks an event" in caplog.text
