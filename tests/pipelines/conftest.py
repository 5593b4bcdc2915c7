"""A workspace with models and a run, for the commands that read one."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nightshift.contracts.section import Page, SectionOutcome
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef


@pytest.fixture
def workspace(stocked: str, tmp_path: Path) -> Path:
    """Three versions, of which 2 is the champion, and the run `fraud-1` with its summary, page and drift."""
    release_record.promote(ReleaseRef(stocked, "fraud"), 2)
    folder = tmp_path / "runs" / "fraud-1"
    (folder / "drift" / "drift").mkdir(parents=True)
    started = (datetime.now(UTC) - timedelta(days=999)).isoformat()
    parameters = {"date": "2018-07-31", "config": {"name": "fraud"}}
    record = {"pipeline": "monitoring", "started": started, "parameters": parameters, "complete": True}
    (folder / "run.json").write_text(json.dumps(record))
    steps = {"training": {"seconds": 2.5, "machine": "box", "usd": 0.5}, "scoring": {"seconds": None}}
    summary = {"run": "fraud-1", "config": {"name": "fraud"}, "model_version": 2, "usd": None, "steps": steps}
    (folder / "summary.json").write_text(json.dumps(summary))
    headline = SectionOutcome(headline="Version 2 is the champion.", label="promoted")
    Page(use_case="fraud", run="fraud-1", headline=headline, outcomes=[], sections=[]).write(str(folder / "page.json"))
    volume = Measure(name="volume", value=0.7, limit=0.5, higher_is_better=False)
    reasons = ["There are 70% fewer rows a day."]
    verdict = Verdict(gate="drift", decision=Decision.FAIL, reasons=reasons, measures=[volume], subject="0" * 64)
    verdict.write(str(folder / "drift" / "drift" / "verdict.json"))
    return tmp_path
