"""Scoring and monitoring, through the command line, of a champion that the training pipeline has made."""

import shlex

import pandas as pd
import pytest

from tests.e2e.nights import DRIFTED, GROUP, STABLE, TRAINED, Nights

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


def test_the_champion_scores_a_day_whose_labels_nobody_knows(nights: Nights, scored: dict[str, str]) -> None:
    scores = nights.left(f"fraud-scoring-{STABLE[0]}-*/scoring-of-champion/scores/scores.json")
    path = scores["partitions"][-1]["uri"]
    rows = pd.read_parquet(path)
    assert set(rows["event_time"].dt.strftime("%Y-%m-%d")) == {STABLE[0]}
    assert set(rows["model_version"]) == {"1"}
    line = f"{len(rows):,} events of {STABLE[0]} scored by version 1\n  {rows['flagged'].sum():,} of them flagged.\n"
    assert line in scored[STABLE[0]]
    assert f"\nscores   {path}\n" in scored[STABLE[0]]
    assert scored[STABLE[0]].endswith(f"next     nightshift run monitoring --date {STABLE[0]} {nights.flags}\n")


def test_a_backfill_of_the_scoring_tells_what_was_scored_each_day(nights: Nights, scored: dict[str, str]) -> None:
    words = ["--from", STABLE[0], "--to", STABLE[-1], "--config", str(nights.folder / "fraud.yaml")]
    printed = nights.nightshift("backfill", "scoring", *words).splitlines()

    heading = " ".join(line for line in printed if line.startswith("┃"))  # wrapped in a narrow terminal
    assert {"date", "state", "scored", "flagged", "version"} <= set(heading.split())
    for day in STABLE:
        (line,) = [line for line in printed if day in line]
        assert f"{line.split()[5]} events of {day} scored" in scored[day]


def test_stable_days_ask_for_nothing(nights: Nights, monitored: dict[str, str]) -> None:
    for day in STABLE:
        request = {"schema": 1, "retrain": False, "reason": "Nothing has drifted.", "key": f"fraud/{day}"}
        assert nights.request(day) == request
        assert "\nNo retraining needed\n  Nothing has drifted.\n" in monitored[day]


def test_a_world_that_changes_asks_once_and_cools_down(nights: Nights, monitored: dict[str, str]) -> None:
    assert [nights.request(day)["retrain"] for day in DRIFTED] == [False, True, False]
    assert nights.request(DRIFTED[1])["key"] == f"fraud/{DRIFTED[1]}"
    reasons = [nights.audited(day)["reason"] for day in DRIFTED]
    assert reasons[0].startswith("Not yet: 1 drifted")
    assert reasons[1].startswith("Retrain: 2 of 3 days have drifted.")
    assert reasons[2].startswith(f"Cooling down: {DRIFTED[1]} asked")
    assert all("volume" in nights.audited(day)["raised"] for day in DRIFTED)


def test_a_request_is_printed_with_the_command_that_carries_it_out(nights: Nights, monitored: dict[str, str]) -> None:
    (line,) = [line for line in monitored[DRIFTED[1]].splitlines() if line.startswith("next")]
    assert shlex.split(line)[1:6] == ["nightshift", "run", "training", "--date", DRIFTED[1]]
    launch = nights.left(f"fraud-monitoring-{DRIFTED[1]}-*/retraining/launch")
    assert launch["outcome"] == f"no Kubeflow here; run: nightshift run training --config fraud --date {DRIFTED[1]}"
    assert not [
        line for day in (*STABLE, DRIFTED[0], DRIFTED[2]) for line in monitored[day].splitlines() if "next" in line
    ]


def test_the_champion_is_held_to_what_it_reached_when_it_was_evaluated(
    nights: Nights, monitored: dict[str, str]
) -> None:
    evaluation = nights.left(f"fraud-training-{TRAINED}-*/evaluation/evaluation/evaluation.json")
    evaluated = evaluation["models"][evaluation["selected"]]
    drift = nights.left(f"fraud-monitoring-{DRIFTED[1]}-*/drift/drift/drift.json")

    promised = {
        "metric": "average_precision",
        "value": evaluated["average_precision"],
        "measured": "when it was evaluated",
    }
    assert (drift["model_version"], drift["promised"]) == ("1", promised)
