"""`nightshift runs` and `nightshift drift`: what a workspace has seen, without a browser."""

import json
import subprocess
from pathlib import Path

import pytest

from nightshift.contracts.drift import ColumnDrift
from nightshift.contracts.listings import DriftCheck
from nightshift.contracts.verdict import Decision, Verdict
from nightshift_testkit.processes import engine
from pipelines.workspace import list_drifted
from tests.pipelines.ui.conftest import write_run

VERDICT = Verdict(gate="drift", decision=Decision.FAIL, reasons=[], measures=[], subject="0" * 64)


def run(*words: str) -> str:
    return subprocess.run(engine(*words), check=True, capture_output=True, text=True).stdout


def check(day: int, *names: str) -> DriftCheck:
    drifted = [
        ColumnDrift(
            name=name,
            psi=0.3,
            psi_limit=0.2,
            wasserstein=None,
            wasserstein_limit=None,
            drifted=True,
            reference_mean=None,
            current_mean=None,
        )
        for name in names
    ]
    return DriftCheck(run=str(day), logical_date=f"2026-11-{day}", verdict=VERDICT, drifted=drifted)


def test_the_input_that_drifted_first_without_a_break_is_first() -> None:
    checks = [check(24, "late", "early", "again"), check(23, "early"), check(22, "early", "again"), check(21)]

    assert [(one.name, one.since.day) for one in list_drifted(checks)] == [("early", 22), ("late", 24), ("again", 24)]
    assert list_drifted([]) == []


@pytest.mark.slow
def test_unfinished_runs_are_listed_with_the_steps_that_failed(workspace: Path) -> None:
    write_run(workspace, "fraud-2", complete=False, steps={"training": {"state": "failed"}})

    text = run("runs", "--unfinished", "--workspace", str(workspace))
    document = json.loads(run("runs", "--json", "--workspace", str(workspace)))

    assert ["fraud-2" in text, "failed in training" in text, "fraud-1" in text] == [True, True, False]
    assert [(one["run"], one["failed"]) for one in document["runs"]] == [("fraud-2", ["training"]), ("fraud-1", [])]


@pytest.mark.slow
def test_drift_names_the_days_and_what_has_drifted(workspace: Path) -> None:
    text = run("drift", "--workspace", str(workspace))

    assert ["2018-07-31" in text, "fail" in text, "no drifted input" in text] == [True, True, True]
