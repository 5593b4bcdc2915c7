"""A task that an entry point alone makes known, through the command line from data to a release in steps."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
import yaml

from tests.e2e.third_party import INSTALLED, ThirdPartyWorkspace, read

# in one group, so that one worker makes the runs that all of it looks at
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("third-party")]

TRAINED, SCORED, AGAIN = "2025-06-30", "2025-07-01", "2025-07-07"
STEPS = {"2025-07-15": "2025-07-08", "2025-07-16": "2025-07-15"}  # logical date -> since when its stage has lasted
COLUMNS = {"event_id": "id", "event_time": "opened", "shop": "shop", "promo": "promo", "label": "sold"}
SHOPS = 60
STIFF = {"stiff": {"kind": "poisson", "parameters": {"alpha": 100.0}}}


def config(candidates: dict[str, Any], **evaluation: float) -> dict[str, Any]:
    return {
        "name": "shops",
        "label_delay_days": 2,
        "source": {"files": "{date}.parquet"},
        "columns": COLUMNS,
        "simulator": {"shops": SHOPS},
        "protocol": {"train_days": 14, "test_days": 7},
        "optimization": {"form": "graph"},
        "release": {"gradual": True, "shares": [0.5], "horizon_days": 3650},
        "task": {"kind": "shop-counts", "candidates": candidates},
        "evaluation": evaluation,
    }


def backdate(shops: ThirdPartyWorkspace, day: str) -> None:
    """Have what the release record says of today lie in the past, from which day on labels count."""
    record = shops.folder / "registry/releases/shops.json"
    record.write_text(re.sub(r'"since": *"(?!2025-07)[^"]*"', f'"since": "{day}T06:00:00Z"', record.read_text()))


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThirdPartyWorkspace]:
    shops = ThirdPartyWorkspace(tmp_path_factory.mktemp("shops"))
    yield shops
    shops.nightshift("stop")


@pytest.fixture(scope="module")
def first(shops: ThirdPartyWorkspace) -> Path:
    """The training of a poor model, which becomes the champion since it is the first."""
    return shops.run("training", TRAINED, config(STIFF, max_loss=30))


@pytest.fixture(scope="module")
def answer(first: Path) -> dict[str, Any]:
    """What the endpoint says to the printed line, before it serves another version; and its scores, by upper edge."""
    line = read(first / "summary.json")["curl"]
    done = subprocess.run(shlex.split(line), capture_output=True, check=True, timeout=1200)
    page = httpx.get(re.sub(r".*(http://[^/ ]+).*", r"\1/metrics", line), timeout=1200).text
    bins = re.findall(r'endpoint_score_bucket{le="([^"]+)".*} (.*)', page)
    return json.loads(done.stdout) | {"bins": {edge: float(count) for edge, count in bins}}


@pytest.fixture(scope="module")
def scored(shops: ThirdPartyWorkspace, answer: dict[str, Any]) -> Path:
    return shops.run("scoring", SCORED, config(STIFF))


@pytest.fixture(scope="module")
def monitored(shops: ThirdPartyWorkspace, scored: Path) -> Path:
    return shops.run("monitoring", SCORED, config(STIFF))


@pytest.fixture(scope="module")
def challenged(shops: ThirdPartyWorkspace, monitored: Path) -> Path:
    """The training of a better model, which is released in steps."""
    return shops.run("training", AGAIN, config(STIFF | {"poisson": {"kind": "poisson"}}))


@pytest.fixture(scope="module")
def steps(shops: ThirdPartyWorkspace, challenged: Path) -> list[dict[str, Any]]:
    """The release record after each step."""
    records = []
    for day, since in STEPS.items():
        backdate(shops, since)
        records.append(read(shops.run("release", day, config(STIFF)) / "release/release"))
    return records


def about_configs(*words: str) -> subprocess.CompletedProcess[str]:
    options = {"env": os.environ | {"PYTHONPATH": INSTALLED}, "capture_output": True, "text": True, "timeout": 1200}
    return subprocess.run([sys.executable, "-m", "pipelines.cli", "config", *words], check=False, **options)


def test_the_schema_has_its_columns_and_its_simulators_settings() -> None:
    sections = json.loads(about_configs("schema").stdout)["$defs"]
    assert {"shop", "promo"} < set(sections["ShopColumns"]["properties"])
    assert "shops" in sections["ShopSimulator"]["properties"]


def test_a_column_that_only_another_task_has_is_refused_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(config(STIFF) | {"columns": COLUMNS | {"terminal": "shop"}}))
    done = about_configs("show", str(file))
    assert done.returncode == 2
    assert "columns.terminal: a key of task tabular, tabular-classification only; leave it out" in done.stderr


def test_an_input_averages_the_counts_that_are_known_when_the_day_begins(first: Path) -> None:
    events, features = (
        {part["date"]: part["uri"] for part in read(first / name)["partitions"]}
        for name in ("ingestion/events", "features/features")
    )
    known = pd.concat([pd.read_parquet(events[f"2025-06-{day}"]) for day in range(11, 18)])
    rows = pd.read_parquet(features["2025-06-20"]).set_index("shop")
    means = known["label"].astype(float).groupby(known["shop"]).mean()
    assert np.expm1(rows["log_mean_7d"]).to_dict() == pytest.approx(means.to_dict())


def test_a_training_passes_the_gate_by_a_metric_of_which_less_is_better(first: Path) -> None:
    verdict = read(first / "evaluation/evaluation/verdict.json")
    (measure,) = verdict["measures"]
    assert verdict["decision"] == "pass"
    assert (measure["name"], measure["higher_is_better"]) == ("poisson_deviance", False)
    assert measure["interval"][0] < measure["value"] < measure["interval"][1] < measure["limit"]


def test_drift_compares_its_inputs_and_its_rates(first: Path) -> None:
    columns = [column["name"] for column in read(first / "drift/drift/drift.json")["columns"]]
    assert columns == ["log_mean_7d", "log_mean_28d", "promo", "weekday", "score"]
    assert read(first / "drift/drift/verdict.json")["decision"] in ("pass", "fail")


def test_another_form_of_the_graph_is_judged_by_what_it_loses_of_the_metric(first: Path) -> None:
    optimization = read(first / "optimization/optimized/optimization.json")
    assert optimization["metric"] == "Poisson deviance"
    assert [attempt["name"] for attempt in optimization["attempts"]] == ["original", "graph"]
    assert abs(optimization["attempts"][1]["loss"]["value"]) < 1e-3


def test_the_report_has_a_section_of_every_step_and_calls_metrics_as_the_task_does(first: Path) -> None:
    sections = {section["title"]: section for section in read(first / "page.json")["sections"]}
    assert {"Data", "Features", "Training", "Optimization", "Model quality", "Drift", "Release"} <= set(sections)
    assert sections["Model quality"]["highlights"][0]["label"] == "Poisson deviance"
    assert "Poisson deviance" in (first / "report.html").read_text()


def test_the_endpoint_answers_the_printed_line_with_a_rate_and_decides_nothing(answer: dict[str, Any]) -> None:
    (prediction,) = answer["predictions"]
    assert (answer["model"], answer["version"], set(prediction)) == ("shops", 1, {"score", "version"})
    assert prediction["score"] > 1


def test_the_endpoint_counts_rates_in_bins_as_wide_as_the_task_says(answer: dict[str, Any]) -> None:
    assert list(answer["bins"])[:2] == ["5", "10"]
    assert answer["bins"]["100"] == answer["bins"]["+Inf"] > 0


def test_the_champion_scores_a_day_whose_counts_nobody_knows(scored: Path) -> None:
    scores = read(next(scored.glob("*/scores/scores.json")))
    assert (scores["details"]["version"], scores["details"]["promised"]["metric"]) == ("1", "poisson_deviance")
    assert scores["details"]["promised"]["measured"] == "when it was evaluated"
    assert scores["partitions"][-1]["date"] == SCORED
    assert scores["partitions"][-1]["rows"] == SHOPS


def test_monitoring_holds_the_champion_to_its_promise_where_counts_have_arrived(monitored: Path) -> None:
    signals = {signal["name"]: signal for signal in read(monitored / "drift/drift/drift.json")["signals"]}
    assert signals["labels"]["value"] == 1
    assert signals["performance"]["reason"].startswith("Poisson deviance")
    assert read(monitored / "monitoring/request")["key"] == f"shops/{SCORED}"


def test_of_two_candidates_the_lower_deviance_is_selected_and_beats_the_champion(challenged: Path) -> None:
    lineage = read(challenged / "training/model/model.json")["lineage"]
    verdict = read(challenged / "evaluation/evaluation/verdict.json")
    gain = next(measure for measure in verdict["measures"] if measure["name"] == "poisson_deviance_gain")
    assert lineage["reason"].startswith("poisson has the lowest poisson deviance")
    assert verdict["decision"] == "pass"
    assert gain["interval"][0] > 0


def test_a_better_version_is_released_in_steps_by_the_counts_that_arrive(steps: list[dict[str, Any]]) -> None:
    canary, live = steps
    assert [(share["version"], share["traffic"]) for share in canary["versions"]] == [(1, 0.5), (2, 0.5)]
    assert (canary["stage"], live["stage"], live["action"]) == ("canary", "live", "promoted")
    assert live["versions"][0]["version"] == 2
    assert live["reasons"] == ["Version 2 is better than version 1 after 540 observations."]
