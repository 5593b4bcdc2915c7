"""What the page of a run is composed of."""

import json

import pytest

from nightshift.contracts.section import Page, SectionOutcome, Text
from tests.components.reporting.conftest import SIGNALS, WHY

pytestmark = pytest.mark.slow


def composed(sample) -> Page:
    sample.report()
    return Page.model_validate_json((sample.folder / "page.json").read_bytes())


def test_the_first_section_with_an_outcome_gives_the_headline(sample):
    assert composed(sample).headline.headline == "Version 3 is live"
    sample.show("scores", weight=1, outcome=SectionOutcome(headline="9,585 events scored"))
    assert composed(sample).headline.headline == "9,585 events scored"


def test_sections_come_by_weight_with_those_about_the_run_at_the_end(sample):
    titles = [section.title for section in composed(sample).sections]
    assert titles == ["Release", "Model quality", "Drift", "Data", "Steps", "Costs", "Lineage"]


def test_a_section_appears_by_being_written_whatever_the_step(sample):
    sample.show("profile", title="Speed", weight=25, blocks=[Text(sentences=["It is fast."])])
    page = composed(sample)
    assert [section.title for section in page.sections][2] == "Speed"
    assert "It is fast." in (sample.folder / "report.html").read_text()


def test_what_the_headline_says_is_not_said_again(sample):
    page = composed(sample)
    assert page.headline.reasons == [WHY, "No drift."]
    assert {title: outcome.reasons for title, outcome in page.outcomes} == {
        "Model quality": [],
        "Drift": SIGNALS,
    }


def test_an_outcome_without_a_label_stays_out_of_the_list(sample):
    sample.show("scores", title="Scores", weight=50, outcome=SectionOutcome(headline="9,585 events scored"))
    assert "Scores" not in dict(composed(sample).outcomes)


def test_another_pipeline_has_the_steps_of_its_artifacts(sample):
    inputs = sample.executor_input["inputs"]["artifacts"]
    for name in ("model", "profile", "evaluation", "deployment"):
        del inputs[name]
    summary, _ = sample.report()
    assert set(summary["steps"]) == {"ingestion", "features", "scoring", "drift"}
    assert summary["status"] == "succeeded"
    assert composed(sample).headline.headline == "Stable"


def test_a_task_of_another_name_than_its_step_keeps_its_state_and_log(sample):
    folder = sample.folder / "scoring-of-champion"
    (sample.folder / "scoring").rename(folder)
    (artifact,) = sample.executor_input["inputs"]["artifacts"]["scores"]["artifacts"]
    artifact["uri"] = str(folder / "scores")
    record = json.loads((sample.folder / "run.json").read_text())
    record["steps"]["scoring-of-champion"] = record["steps"].pop("scoring") | {
        "state": "reused", "log": str(folder / "log.txt")
    }  # fmt: skip
    sample.change("run.json", **record)
    summary, html = sample.report()
    assert summary["steps"]["scoring"]["state"] == "reused"
    assert 'href="scoring-of-champion/log.txt"' in html
