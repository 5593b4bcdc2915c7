"""The step on real files of the drift step and a real audit log."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.monitoring.__main__ import body
from nightshift.contracts.drift import DriftReport
from nightshift.contracts.section import read_section
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from tests.components import samples
from tests.components.states import state

CONFIG = samples.CONFIG | {"controller": {"retrain": "on_drift", "drifted_days": 2, "window_days": 2}}


def context(folder: Path, day: str, drifted: bool, target: str = "local") -> StepContext:
    """Write the day's drift and return the step's context."""
    signal = {"name": "inputs", "value": 0.4, "limit": 0.1, "raised": drifted, "reason": "Inputs moved."}
    days = {"first": day, "last": day, "rows": 1}
    drift = DriftReport(
        model_sha256="abc",
        model_version="1",
        promised=None,
        window=days,
        reference=days,
        drifted_share=0.4,
        columns=[],
        signals=[signal],
    )
    drift.write(str(folder / day / "drift.json"))
    return samples.context(
        config=json.dumps(CONFIG),
        date=day,
        drift=str(folder / day),
        state=state(folder, target=target),
        request=str(folder / day / "request.json"),
    )


def request(folder: Path, day: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / day / "request.json").read_text())
    return content


def test_the_second_drifted_day_asks_and_the_log_says_why_each_day_did_or_did_not(tmp_path: Path) -> None:
    for day in ("2024-03-19", "2024-03-20"):
        body(context(tmp_path, day, drifted=True))

    assert not request(tmp_path, "2024-03-19")["retrain"]
    assert request(tmp_path, "2024-03-20") == {
        "schema": 1,
        "retrain": True,
        "reason": "Retrain: 2 of 2 days have drifted. Inputs moved.",
        "key": "tiny/2024-03-20",
    }
    waiting, asking = (read_section(str(tmp_path / day / "request.json")) for day in ("2024-03-19", "2024-03-20"))
    assert (waiting.outcome.next, asking.outcome.next) == (None, "training")
    assert asking.outcome.headline == "Retraining requested"
    assert [row.cells for row in asking.blocks[0].rows] == [
        ["2024-03-20", "inputs", "retrain"],
        ["2024-03-19", "inputs", "keep"],
    ]
    files = sorted((tmp_path / "audit" / "tiny").iterdir())
    assert [file.name for file in files] == ["2024-03-19.json", "2024-03-20.json"]
    assert json.loads(files[0].read_text())["reason"].startswith("Not yet: 1 drifted")
    assert json.loads(files[1].read_text())["effects"] == {"inputs": 0.4}


def test_a_day_again_makes_the_same_request_and_changes_nothing_in_the_log(tmp_path: Path) -> None:
    for day in ("2024-03-19", "2024-03-20", "2024-03-21"):
        body(context(tmp_path, day, drifted=True))
    file = tmp_path / "audit" / "tiny" / "2024-03-20.json"
    before, first = (file.read_bytes(), file.stat().st_mtime_ns), request(tmp_path, "2024-03-20")

    body(context(tmp_path, "2024-03-20", drifted=False))

    assert request(tmp_path, "2024-03-20") == first
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_a_backfill_is_on_record_and_asks_for_nothing(tmp_path: Path) -> None:
    for day in ("2024-03-19", "2024-03-20"):
        body(context(tmp_path, day, drifted=True, target="record-only"))

    assert not request(tmp_path, "2024-03-20")["retrain"]
    assert "never asks" in json.loads((tmp_path / "audit/tiny/2024-03-20.json").read_text())["reason"]


def test_the_drift_of_another_day_is_refused(tmp_path: Path) -> None:
    other = context(tmp_path, "2024-03-19", drifted=True)
    other.args.date = "2024-03-20"

    with pytest.raises(UserError, match="that of 2024-03-19, not 2024-03-20"):
        body(other)
    assert not (tmp_path / "audit").exists()


@pytest.mark.slow
def test_the_step_runs_as_a_process(tmp_path: Path) -> None:
    args = vars(context(tmp_path, "2024-03-20", drifted=False).args)

    done = samples.run("monitoring", **args)

    assert done.returncode == 0, done.stderr
    assert "no retraining: Nothing has drifted." in done.stderr
