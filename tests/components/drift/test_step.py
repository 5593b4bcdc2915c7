"""The step on real partitions and a real ONNX model."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.drift.__main__ import _keep_sample, body
from nightshift.contracts.section import Links, TableBlock, read_section
from nightshift.runtime.errors import UserError
from tests.components import samples

# Python imports a module of this name when it starts; it writes down every connection that is tried
WATCH = """
import sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        with open({path!r}, "a") as file:
            file.write(f"{{event}} {{arguments}}\\n")
sys.addaudithook(watch)
"""


def training_sample(frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame[frame["event_time"] < "2024-03-17"]
    return rows[["amount", "risk", "label"]].assign(score=rows["amount"].astype("float32"))


pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("drift-step")]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the step has run once: amounts have risen since training, risks have not."""
    folder = tmp_path_factory.mktemp("drift")
    frame = samples.features(rows_a_day=600)
    samples.write_model(folder / "model", {"only": [1.0, 0.0]}, training_sample(frame))
    frame["amount"] = np.where(frame["event_time"] >= "2024-03-19", frame["amount"] + 0.3, frame["amount"])
    features = samples.write_features(folder, frame)
    for name in ("home", "watch"):
        (folder / name).mkdir()
    (folder / "watch" / "sitecustomize.py").write_text(WATCH.format(path=str(folder / "connections")))
    environment = {key: value for key, value in os.environ.items() if key != "DO_NOT_TRACK"}
    environment |= {"HOME": str(folder / "home"), "PYTHONPATH": str(folder / "watch")}
    output = {"name": "drift", "type": {"schemaTitle": "system.Artifact"}, "uri": str(folder / "drift")}
    executor = {"outputs": {"artifacts": {"drift": {"artifacts": [output]}}, "outputFile": str(folder / "out")}}
    done = samples.run(
        "drift",
        environment,
        features=features,
        scores=samples.score(folder, features),
        drift=str(folder / "drift"),
        config=json.dumps(samples.CONFIG | {"drift": {"window_days": 2, "evidently": True}}),
        executor_input=json.dumps(executor),
    )
    assert done.returncode == 0, done.stderr
    return folder


def compare(folder: Path, features: str) -> None:
    """Score features with the folder's model, and run the step in this process."""
    body(samples.context(features=features, scores=samples.score(folder, features), drift=str(folder / "drift")))


@pytest.fixture
def frame(tmp_path: Path) -> pd.DataFrame:
    """Features on whose training days the model of the test's folder was trained."""
    rows = samples.features()
    samples.write_model(tmp_path / "model", {"only": [1.0, 0.0]}, training_sample(rows))
    return rows


def links(ran: Path) -> list[str]:
    section = read_section(str(ran / "drift"))
    assert section
    return [link.uri for block in section.blocks if isinstance(block, Links) for link in block.links]


def figures(ran: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ran / "drift" / "drift.json").read_text())
    return content


def test_the_newest_days_are_compared_with_the_training_sample(ran: Path) -> None:
    measured = figures(ran)

    assert measured["window"] == {"first": "2024-03-19", "last": "2024-03-20", "rows": 1200}
    assert measured["reference"] == {"first": "2024-03-15", "last": "2024-03-16", "rows": 1200}


def test_the_page_names_the_raised_signals_first(ran: Path) -> None:
    section = read_section(str(ran / "drift"))

    assert section
    assert [(fact.value, fact.note) for fact in section.highlights] == [("drifted", "inputs, score, volume")]


def test_the_inputs_come_first_and_the_score_last(ran: Path) -> None:
    columns = figures(ran)["columns"]

    assert [(column["name"], column["drifted"]) for column in columns] == [
        ("amount", True),
        ("risk", False),
        ("score", True),
    ]
    assert columns[0]["current_mean"] == pytest.approx(columns[0]["reference_mean"] + 0.3, abs=0.03)
    assert columns[2]["psi"] == pytest.approx(columns[0]["psi"])


def test_a_score_that_drifted_makes_the_verdict(ran: Path) -> None:
    verdict = json.loads((ran / "drift" / "verdict.json").read_text())

    assert (verdict["decision"], verdict["advisory"]) == ("fail", True)
    assert verdict["reasons"][1].startswith("The score drifted: PSI ")
    assert verdict["subject"] == figures(ran)["model_sha256"]
    assert figures(ran)["drifted_share"] == 0.5


def test_the_section_shows_the_largest_shift_first_and_what_was_raised(ran: Path) -> None:
    section = read_section(str(ran / "drift"))
    assert section
    assert section.outcome
    assert (section.outcome.label, section.outcome.tone) == ("fail", "bad")
    assert section.outcome.reasons[0].startswith("1 of 2 inputs drifted")
    effects, signals = [block for block in section.blocks if isinstance(block, TableBlock)]
    assert [(row.cells[0], row.tag) for row in effects.rows][-1] == ("risk", "")
    assert {row.cells[0] for row in signals.rows if row.tag} >= {"inputs", "score"}


def test_the_step_reports_its_effect_sizes(ran: Path) -> None:
    metadata = json.loads((ran / "out").read_text())["artifacts"]["drift"]["artifacts"][0]["metadata"]

    assert metadata["drifted_share"] == 0.5
    assert metadata["psi"] == {column["name"]: column["psi"] for column in figures(ran)["columns"]}
    assert metadata["raised"] == {signal["name"]: signal["raised"] for signal in figures(ran)["signals"]}


def test_the_section_links_a_page_that_holds_all_it_needs(ran: Path) -> None:
    assert links(ran) == [str(ran / "drift" / "evidently.html")]
    page = (ran / "drift" / "evidently.html").read_text()

    assert "Data Drift Summary" in page
    assert not re.search(r"<(script|img|iframe)[^>]+src=\"?http|<link[^>]+href=\"?http", page)
    assert len(page) < 6_000_000


def test_without_a_word_in_the_config_there_is_no_page_no_link_and_no_import_of_evidently(
    tmp_path: Path, frame: pd.DataFrame
) -> None:
    features = samples.write_features(tmp_path, frame)
    (tmp_path / "evidently.py").write_text("raise AssertionError('imported')")

    scores = samples.score(tmp_path, features)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = samples.run("drift", environment, features=features, scores=scores, drift=str(tmp_path / "drift"))

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "drift").iterdir()) == [
        "drift.json",
        "verdict.json",
    ]
    assert links(tmp_path) == []


def test_nothing_is_sent_and_nothing_is_left_in_the_home_folder(ran: Path) -> None:
    assert not (ran / "connections").exists()
    assert list((ran / "home").iterdir()) == []


def test_the_watch_sees_a_connection(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH.format(path=str(tmp_path / "connections")))
    script = "import socket; socket.socket().connect_ex(('127.0.0.1', 9))"
    subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(tmp_path)}, check=True)

    assert "127.0.0.1" in (tmp_path / "connections").read_text()


def test_days_without_rows_cannot_be_compared(tmp_path: Path, frame: pd.DataFrame) -> None:
    features = samples.write_features(tmp_path, frame)
    samples.empty(features, "2024-03-19", "2024-03-20")

    with pytest.raises(UserError, match="have no rows, so there is nothing to compare"):
        compare(tmp_path, features)


def test_scores_of_other_events_are_a_mistake_of_ours(tmp_path: Path, frame: pd.DataFrame) -> None:
    scores = samples.score(tmp_path, samples.write_features(tmp_path, frame))
    features = samples.write_features(tmp_path, frame.sort_values(["amount"]))

    with pytest.raises(AssertionError, match="the scores of 2024-03-19 are not of its features"):
        body(samples.context(features=features, scores=scores, drift=str(tmp_path / "drift")))


def test_every_signal_is_among_the_figures_with_the_model_it_is_about(ran: Path) -> None:
    signals = {signal["name"]: signal for signal in figures(ran)["signals"]}

    assert [name for name, signal in signals.items() if signal["raised"]] == ["inputs", "score", "volume"]
    # 600 rows a day where such days had 40, and labels for all that are due
    assert (signals["volume"]["value"], signals["labels"]["value"]) == (14, 1)
    assert signals["positives"]["value"] is None
    assert len(figures(ran)["model_sha256"]) == 64
    assert figures(ran)["model_version"] == "unregistered"


def test_what_earlier_steps_have_seen_is_in_the_verdict(tmp_path: Path, frame: pd.DataFrame) -> None:
    corrected = {"name": "corrections", "value": 1.0, "limit": 0.5, "raised": True, "reason": "Twice the positives."}
    features = samples.write_features(tmp_path, frame, signals=[corrected], unlabeled={"2024-03-18": 40})

    compare(tmp_path, features)

    raised = [signal["name"] for signal in figures(tmp_path)["signals"] if signal["raised"]]
    assert {"corrections", "unlabeled_days"} <= {*raised}
    verdict = json.loads((tmp_path / "drift" / "verdict.json").read_text())
    assert "Labels that are due have not arrived for 2024-03-18 (40 rows); deliver them." in verdict["reasons"]


def test_labels_that_have_not_arrived_are_noticed(tmp_path: Path, frame: pd.DataFrame) -> None:
    frame.loc[frame["event_time"] >= "2024-03-19", "label"] = pd.NA
    features = samples.write_features(tmp_path, frame)

    compare(tmp_path, features)

    (labels,) = [signal for signal in figures(tmp_path)["signals"] if signal["name"] == "labels"]
    assert labels["raised"]
    assert labels["reason"].startswith("0 of 40 rows have labels on the newest day whose labels are due")


def test_a_model_that_has_seen_all_labels_that_are_due_is_not_judged_by_them(tmp_path: Path) -> None:
    frame = samples.features()
    model = samples.write_model(
        tmp_path / "model", {"only": [1.0, 0.0]}, training_sample(frame), trained_until="2024-03-19"
    )
    features = samples.write_features(tmp_path, frame)

    compare(tmp_path, features)

    assert figures(tmp_path)["model_sha256"] == model.sha256
    names = [signal["name"] for signal in figures(tmp_path)["signals"]]
    assert names == ["inputs", "score", "units", "flagged", "volume"]


def test_evidently_sees_rows_from_all_of_a_large_window() -> None:
    batches = [pd.DataFrame({"row": range(start, start + 700)}) for start in range(0, 7000, 700)]
    sample: list[pd.DataFrame] = []

    assert len(list(_keep_sample(batches, 9, sample))) == 10

    assert pd.concat(sample)["row"].tolist() == list(range(0, 7000, 9))
