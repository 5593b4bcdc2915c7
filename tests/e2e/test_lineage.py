"""What a night reports of itself: the graph that a catalog draws of it, and its trace."""

import graphlib
from collections import Counter

import httpx
import pytest

from nightshift_testkit.collectors import Collector
from nightshift_testkit.processes import wait_until
from tests.e2e.nights import GROUP, TRAINED, Nights
from tests.nightshift.openlineage.schema import check_event

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

JOBS = "nightshift fraud.training."
STEPS = {
    *("ingestion", "features", "training", "profiling", "optimization"),
    *("evaluation", "scoring", "drift", "deployment", "reporting"),
}


def test_each_step_starts_and_completes_once_below_the_nights_run(nights: Nights, collector: Collector) -> None:
    for event in collector.events:
        check_event(event)
    names = [(event["job"]["name"], event["eventType"]) for event in collector.events]
    jobs = {f"fraud.training.{step}" for step in STEPS} | {"fraud.training"}
    assert Counter(names) == dict.fromkeys(((job, kind) for job in jobs for kind in ("START", "COMPLETE")), 1)
    run = collector.events[0]["run"]["runId"]
    below = [event for event in collector.events if event["job"]["name"] != "fraud.training"]
    assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in below} == {run}


def test_the_graph_of_a_night_has_no_loose_ends(nights: Nights, collector: Collector) -> None:
    edges = collector.draw()

    read = {source for source, target in edges if target.startswith(JOBS)}
    written = {target for source, target in edges if source.startswith(JOBS)}
    assert read - written == {"inmemory:// simulator.fraud"}
    kept = {
        name for name in written - read if not name.startswith(f"file {nights.folder}/runs/fraud/training/reporting/")
    }
    assert kept == {f"file {nights.folder}/registry/models/fraud"}
    order = graphlib.TopologicalSorter()
    for source, target in edges:
        order.add(target, source)
    jobs = [name.removeprefix(JOBS) for name in order.static_order() if name.startswith(JOBS)]
    assert (set(jobs), jobs[0], jobs[-1]) == (STEPS, "ingestion", "reporting")


def test_the_days_of_a_table_are_counted_where_they_are_written(nights: Nights, collector: Collector) -> None:
    manifest = nights.left(f"fraud-training-{TRAINED}-*/features/features")

    (complete,) = [event for event in collector.list_ended() if event["job"]["name"] == "fraud.training.features"]
    (features,) = complete["outputs"]
    assert features["outputFacets"]["outputStatistics"]["rowCount"] == manifest["rows"]
    assert features["facets"]["version"]["datasetVersion"] == manifest["sha256"]
    assert {"event_id", "label"} <= {field["name"] for field in features["facets"]["schema"]["fields"]}


def test_the_trace_of_a_night_is_its_run_and_the_steps_below(nights: Nights, collector: Collector) -> None:
    night = [span for span in collector.spans if span.service == "nightshift"]

    (run,) = [span for span in night if not span.parent]
    assert {span.name for span in night} == {run.name, *STEPS}
    assert {(span.trace_id, span.parent) for span in night if span is not run} == {(run.trace_id, run.span_id)}
    assert run.seconds >= max(span.seconds for span in night)


def test_the_server_of_the_champion_sends_a_span_of_a_request(nights: Nights, collector: Collector) -> None:
    endpoint = nights.left(f"fraud-training-{TRAINED}-*/deployment/deployment")["endpoint"]
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    httpx.get(f"{endpoint}/model", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})

    span = wait_until(lambda: next((span for span in collector.spans if span.trace_id == trace), None), "the span")
    assert (span.name, span.service, span.parent) == ("GET /model", "nightshift-serving", "00f067aa0ba902b7")
