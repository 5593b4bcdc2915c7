"""What a run says of an earlier one that should have given the same."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.reporting import core
from nightshift.config import parse

pytestmark = pytest.mark.slow

NAME = "handbook-training-2018-08-14-{}"
CONFIGS = Path(__file__).parents[3] / "pipelines" / "configs"
CODE = "0.3.0+abc1234"


@pytest.fixture
def again(sample, new_run):
    """Report a run, then the same date again with other hashes: `again(events="...")` returns summary and page."""

    def report(flags: dict[str, str] | None = None, **hashes: str) -> tuple[dict[str, Any], str]:
        sample.report()
        second = new_run(sample.runs, NAME.format(2))
        second.flags.update(flags or {})
        for name, value in hashes.items():
            second.change("model/model.json" if name == "model" else name, sha256=value)
        return second.report()

    return report


def test_the_same_again_is_identical_to_the_run_before(sample, again):
    summary, html = again()
    reasons = ["Events: identical.", "Features: identical.", "Model: identical."]
    assert summary["repeat"] == {"run": sample.run, "differs": [], "reasons": reasons}
    assert 'Lineage: <span class="said">identical</span>' in html
    assert "<li>Repeat of run handbook-training-2018-08-14-1.</li><li>Events: identical.</li>" in html


def test_other_events_and_features_are_said_to_differ_and_why(sample, again):
    before = sample.report()[0]["hashes"]
    repeat = again(events="a" * 64, features="b" * 64)[0]["repeat"]
    assert repeat["differs"] == ["events", "features"]
    assert repeat["reasons"] == [
        f"Events: aaaaaaaa here, {before['events'][:8]} there.",
        f"Features: bbbbbbbb here, {before['features'][:8]} there.",
        "Model: identical.",
        "The source data has most likely changed.",
    ]


def test_the_newest_earlier_run_counts(sample, new_run, again):
    again(model="c" * 64)
    third = new_run(sample.runs, NAME.format(3)).report()[0]
    assert (third["repeat"]["run"], third["repeat"]["differs"]) == (NAME.format(2), ["model"])
    assert sample.report()[0]["repeat"] is None  # those that came later do not


@pytest.mark.parametrize("flags", [{"data": "/elsewhere"}, {"device": "cuda"}, {"date": "2018-08-13"}])
def test_a_run_of_something_else_is_not_compared_with(again, flags):
    summary, html = again(flags)
    assert summary["repeat"] is None
    assert "Repeat of run" not in html


def test_a_run_with_another_config_is_not_compared_with(sample, again):
    config = json.loads(sample.flags["config"]) | {"label_delay_days": 6}
    assert again({"config": json.dumps(config)})[0]["repeat"] is None


def test_neither_an_incomplete_run_nor_one_of_other_code_is_compared_with(sample, new_run):
    sample.file("deployment").unlink()
    sample.report()
    second = new_run(sample.runs, NAME.format(2))
    second.report()
    path = second.folder / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code_version": CODE}))
    assert new_run(sample.runs, NAME.format(3)).report()[0]["repeat"] is None


def test_without_a_pipelines_name_there_is_nothing_to_look_for(sample, again, new_run):
    again()
    third = new_run(sample.runs, NAME.format(3))
    (third.folder / "run.json").unlink()
    assert third.report()[0]["repeat"] is None


@pytest.mark.parametrize(("code", "causes"), [(CODE, []), (f"{CODE}.dirty", ["The code has changes that are not"])])
def test_code_that_is_not_committed_is_named_as_the_cause_where_the_data_is_the_same(code, causes):
    config = parse(yaml.safe_load((CONFIGS / "handbook.yaml").read_text()))
    head = core.RunHeader("r2", date(2018, 8, 14), "cpu", "simulator", config, code, datetime.now(UTC))
    earlier = {"run": "r1", "hashes": {"events": "a" * 64, "features": "b" * 64, "model": "c" * 64}}
    files = {name: {"sha256": letter * 64} for name, letter in (("events", "a"), ("features", "x"))}
    repeat = core.summarize(head, core.RunArtifacts(files=files), earlier).repeat
    assert repeat.differs == ["features"]
    assert [reason[:33] for reason in repeat.reasons[2:]] == causes
