"""`nightshift costs` as a person calls it."""

import json
from pathlib import Path
from typing import Any

import pytest

from nightshift.runtime.errors import UserError
from tests.pipelines.samples import called


def _summary(workspace: Path, run: str, version: int | None, usd: float | None) -> None:
    step: dict[str, Any] = {"seconds": 1800.0, "machine": "box" if usd else None, "usd": usd}
    summary = {
        "run": run,
        "config": {"name": "fraud"},
        "model_version": version,
        "usd": usd,
        "steps": {"training": step},
    }
    folder = workspace / "runs" / run
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(summary))
    record = {"pipeline": "training", "started": "2018-08-01T02:00:00", "parameters": {}, "complete": True}
    (folder / "run.json").write_text(json.dumps(record))


def test_the_costs_of_all_runs_are_added_up_by_use_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _summary(tmp_path, "fraud-training-1", 3, 0.5)
    _summary(tmp_path, "fraud-training-2", 4, 0.25)
    _summary(tmp_path, "fraud-training-3", None, None)

    assert called("costs", "--workspace", str(tmp_path)) == 0

    printed = capsys.readouterr().out
    assert "0.7500, 1 unknown" in printed and "5,400.0" in printed
    assert "no price" in printed


def test_the_id_of_a_run_is_whole_however_narrow_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = "handbook-prequential-training-2018-08-14-20261122T045500577512"
    _summary(tmp_path, run, 3, 0.5)
    monkeypatch.setenv("COLUMNS", "60")

    assert called("costs", "--workspace", str(tmp_path)) == 0

    assert run in capsys.readouterr().out


def test_a_runs_costs_are_told_by_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _summary(tmp_path, "fraud-training-1", 3, 0.5)

    assert called("costs", "fraud-training-1", "--workspace", str(tmp_path)) == 0

    printed = capsys.readouterr().out
    assert "training" in printed and "box" in printed and "0.5000" in printed and "no price" not in printed


def test_a_training_is_priced_on_every_machine_with_a_gpu_that_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert called("costs", "--samples", "3.6e9", "--measured", "l4=10000", "--measured", "a100-40gb=50000") == 0

    printed = capsys.readouterr().out
    # 100 hours on an L4, 20 on an A100; longer on spot, where work is repeated
    assert "100.00" in printed and "20.00" in printed
    assert f"{0.9776 * 100:.4f}" in printed and "g2-standard-12 spot" in printed


def test_a_workspace_without_runs_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no run in .* has a summary yet; `nightshift run` makes one"):
        called("costs", "--workspace", str(tmp_path))
