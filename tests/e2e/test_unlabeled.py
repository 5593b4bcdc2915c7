"""A task of another package whose rows have no labels, through the command line from data to a gate and a report."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.third_party import INSTALLED, ThirdPartyWorkspace, read

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("unlabeled")]

DAY = "2025-06-30"
METRIC = "negative_log_likelihood"
CONFIG = {
    "name": "readings",
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "id", "event_time": "taken", "readings": ["temperature", "pressure"]},
    "protocol": {"train_days": 2, "test_days": 2},
    "drift": {"window_days": 2},
    "task": {
        "kind": "reading-density",
        "candidates": {
            "loose": {"kind": "shrunk", "parameters": {"shrinkage": 0.9}},
            "tight": {"kind": "shrunk", "parameters": {"shrinkage": 0.001}},
        },
    },
}
# the losses of a model on the rows of a day, in a process of its own, in which the package is installed
LOSSES = """
import sys
from nightshift import tasks
from nightshift.contracts import tables
from nightshift.data.dates import parse_date
table, day = tables.read_table(sys.argv[1]), parse_date(sys.argv[3])
(losses,) = tasks.find("reading-density").release.losses(table, day, [sys.argv[2]])
print(table.partition(day).rows, len(losses), losses.min(), losses.max())
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training whose model is judged and registered."""
    workspace = ThirdPartyWorkspace(tmp_path_factory.mktemp("readings"))
    return workspace.run("training", DAY, CONFIG, "--target", "register-only")


def signals(trained: Path) -> dict[str, Any]:
    return {signal["name"]: signal for signal in read(trained / "drift/drift/drift.json")["signals"]}


def test_the_likelier_candidate_is_selected_and_passes_the_gate_on_the_newest_days(trained: Path) -> None:
    figures, verdict = (read(trained / f"evaluation/evaluation/{name}.json") for name in ("evaluation", "verdict"))
    assert (figures["selected"], verdict["decision"], figures["test"]["last"]) == ("tight", "pass", DAY)
    assert [measure["name"] for measure in verdict["measures"]] == [METRIC]


def test_drift_compares_inputs_score_volume_and_what_was_promised_and_asks_for_no_labels(trained: Path) -> None:
    assert [*signals(trained)] == ["inputs", "score", "volume", "performance"]
    assert signals(trained)["performance"]["reason"].endswith("on its validation days.")


def test_the_newest_days_are_scored(trained: Path) -> None:
    scores = read(trained / "scoring/scores/scores.json")
    assert [part["date"] for part in scores["partitions"]] == ["2025-06-29", DAY]
    assert scores["details"]["promised"]["metric"] == METRIC


def test_the_report_has_every_section_and_neither_table_nor_figure_of_labels(trained: Path) -> None:
    page = read(trained / "page.json")
    sections = {section["title"]: section for section in page["sections"]}
    assert {"Data", "Training", "Model quality", "Drift", "Release"} <= set(sections)
    titles = [block.get("title", "") for section in page["sections"] for block in section["blocks"]]
    assert "Quarantined rows by reason" in titles
    assert not [title for title in titles if "label" in title]
    assert read(trained / "summary.json")["rows"]["quarantined_labels"] is None


def test_a_release_would_weigh_every_row_of_a_day(trained: Path) -> None:
    command = [sys.executable, "-c", LOSSES, str(trained / "features/features"), str(trained / "training/model")]
    environment = os.environ | {"PYTHONPATH": INSTALLED}
    done = subprocess.run([*command, DAY], env=environment, capture_output=True, text=True, check=True, timeout=1200)
    rows, losses, least, most = map(float, done.stdout.split())
    assert rows == losses
    assert 0 < least < most < 50
