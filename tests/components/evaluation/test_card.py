"""What the model card says."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nightshift.config import parse
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.evaluation import DecisionCost
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.verdict import Verdict
from nightshift.tasks.tabular import judging
from nightshift.tasks.tabular import model_card as card
from nightshift.tasks.tabular.explain import CalibrationSummary, Explanation, Slice
from nightshift_testkit import packages
from tests.components import samples

WINDOW = FoldWindow(first="2024-03-15", last="2024-03-16", rows=81_000, open_days=2, positives=10)
MEASURED = judging.RowContender(
    sha256="sha",
    trained_until="2024-03-16",
    metrics={"auc_roc": 0.87, "average_precision": 0.65, "precision_at_k": 0.29, "precision_at_k_ceiling": 0.4},
    cost=DecisionCost(per_1000=150.0, threshold=0.5, alerts=1234, missed_positives=3),
    resamples={name: np.full(9, 0.65) for name in ("average_precision", "precision_at_k", "cost")},
)
CALIBRATION = CalibrationSummary(0.0066, 0.007, 0.001, 0.9, 0.8)


@pytest.fixture
def trial() -> judging.RowTrial:
    model = packages.manifest({"trees": b"", "a|b": b""})
    verdict = Verdict(gate="evaluation", decision="pass", reasons=["It is better."], measures=[], subject="sha")
    return judging.RowTrial(
        parse(samples.CONFIG), model, WINDOW, {"trees": MEASURED, "a|b": MEASURED}, "None.", verdict, {}, [], verdict
    )


def section(text: str, title: str) -> list[str]:
    """The lines of a section."""
    return text.split(f"## {title}\n\n")[1].split("\n\n## ")[0].splitlines()


def test_every_table_is_well_formed_whatever_a_candidate_is_called(trial: judging.RowTrial) -> None:
    text = card.render(trial, Explanation([Slice("night", 5, 1, None)], CALIBRATION, [("amount", 0.3)]))

    for title in ("Data", "Metrics on the test days", "Slices", "Feature importance"):
        lines = [line for line in section(text, title) if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1, title
        assert set(lines[1]) <= set("|-: ")


def test_the_selected_candidate_stands_out_among_all(trial: judging.RowTrial) -> None:
    lines = section(card.render(trial, Explanation([], CALIBRATION, [])), "Metrics on the test days")

    assert "| **trees** | 0.870 | 0.650 [0.650, 0.650] | 0.290 [0.650, 0.650] | 0.400 |" in lines
    assert any(line.startswith("| a\\|b |") for line in lines)


def test_what_could_not_be_measured_is_said_and_not_left_blank(trial: judging.RowTrial) -> None:
    text = card.render(trial, Explanation([Slice("night", 5, 1, None)], CALIBRATION, []))

    assert "| night | 5 | 1 | - |" in section(text, "Slices")
    assert "- Too few positives to measure: night." in section(text, "Limits")
    assert section(text, "Feature importance") == ["Not measured: the test days hold one class only."]


def test_the_limits_follow_the_config_and_the_model(trial: judging.RowTrial) -> None:
    config = json.loads(trial.config.model_dump_json())
    config["protocol"]["drop_compromised"] = False
    inputs = Inputs(numeric=["amount"], categorical={"channel": ["shop"]})
    other = replace(trial, config=parse(config), model=packages.manifest({"trees": b""}, inputs))

    ours, theirs = (section(card.render(entry, Explanation([], CALIBRATION, [])), "Limits") for entry in (trial, other))

    assert any("already known as positive" in line for line in ours)
    assert not any("already known as positive" in line for line in theirs)
    assert any("A category that did not occur" in line for line in theirs)
    assert not any("A category that did not occur" in line for line in ours)


def test_the_card_speaks_of_what_the_use_case_has(trial: judging.RowTrial) -> None:
    config = json.loads(trial.config.model_dump_json())
    config["columns"] |= {"customer": "machine_id", "amount": None}
    alone = config | {
        "columns": config["columns"] | {"customer": None, "terminal": None},
    }
    machines, events = (
        card.render(replace(trial, config=parse(raw)), Explanation([], CALIBRATION, [])) for raw in (config, alone)
    )

    assert "among the 2 values of machine_id with the highest scores of a day" in machines
    assert "- Values of machine_id already known as positive are left out of the test rows" in machines
    assert "a missed positive 1." in machines
    assert "among the 2 events with the highest scores of a day" in events
    assert "already known as positive" not in events
    for word in ("fraud", "card precision", "customer", "amount", "ompromised"):
        assert word not in events.replace("amount | ", "")


def test_notes_on_the_rows_are_limits(trial: judging.RowTrial) -> None:
    text = card.render(replace(trial, notes=["Two days were empty."]), Explanation([], CALIBRATION, []))

    assert "- Two days were empty." in section(text, "Limits")
