"""The step on real partitions and real ONNX models."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from components.evaluation.__main__ import _measure as measure_version
from components.evaluation.__main__ import evaluate
from nightshift import registry
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Verdict
from nightshift.registry import Version, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UnavailableError
from tests.components import samples
from tests.components.states import state

CANDIDATES = {"first": [1.0, 0.0], "second": [0.0, 1.0]}


def version(uri: Path, sha256: str = "old") -> Version:
    return Version("tiny", 3, str(uri), sha256, {})


def run(folder: Path, frame: pd.DataFrame, champion: Version | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Evaluate the model in `folder/model`; return evaluation.json and verdict.json."""
    output = folder / "evaluation"
    paths = {"features": samples.write_features(folder, frame), "model": str(folder / "model")}
    evaluate(samples.context(**paths, state=state(folder), evaluation=str(output)), lambda _: champion)
    return json.loads((output / "evaluation.json").read_text()), json.loads((output / "verdict.json").read_text())


def window(frame: pd.DataFrame) -> pd.DataFrame:
    """The test rows."""
    return frame[frame["event_time"].between("2024-03-18", "2024-03-19 23:59")]


class Evaluated(NamedTuple):
    """What an evaluation without a champion has left, and the rows behind it."""

    folder: Path
    rows: pd.DataFrame
    model: ModelPackage
    evaluation: dict[str, Any]
    verdict: dict[str, Any]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    folder, frame = tmp_path_factory.mktemp("evaluated"), samples.features()
    model = samples.write_model(folder / "model", CANDIDATES)
    return Evaluated(folder, window(frame), model, *run(folder, frame))


def test_a_candidates_metrics_are_those_of_scikit_learn_on_the_test_days(evaluated: Evaluated) -> None:
    _, rows, _, evaluation, verdict = evaluated
    for name, column in (("first", "amount"), ("second", "risk")):
        scores = rows[column].astype(np.float32)
        assert evaluation["models"][name]["auc_roc"] == pytest.approx(roc_auc_score(rows["label"], scores))
        expected = average_precision_score(rows["label"], scores)
        assert evaluation["models"][name]["average_precision"] == pytest.approx(expected)
    counts = {"rows": 80, "open_days": 2, "positives": 10}
    assert evaluation["test"] == {"first": "2024-03-18", "last": "2024-03-19"} | counts
    assert evaluation["selected"] == "first"
    measures = {measure["name"]: measure["value"] for measure in verdict["measures"]}
    assert evaluation["models"]["first"].items() <= measures.items()


@pytest.mark.parametrize(("differing", "rows", "decision"), [(0, 40, "pass"), (3, 40, "fail"), (0, 0, "undecided")])
def test_a_single_event_that_differs_online_is_one_too_many(tmp_path: Path, differing, rows, decision) -> None:
    model = samples.write_model(tmp_path / "model", CANDIDATES)
    manifest = tmp_path / "features.json"
    samples.write_features(tmp_path, samples.features())
    table = json.loads(manifest.read_text())
    table["details"]["replay"] |= {"differing": differing, "rows": rows, "largest": 0.25 * differing, "worst": "risk"}
    manifest.write_text(json.dumps(table))
    output = str(tmp_path / "evaluation")
    context = samples.context(
        features=str(manifest), model=str(tmp_path / "model"), state=state(tmp_path), evaluation=output
    )
    evaluate(context, lambda _: None)
    verdict = Verdict.read(f"{output}/skew.json")
    assert (verdict.gate, verdict.decision, verdict.subject) == ("skew", decision, model.sha256)
    assert verdict.value("online_differing") == differing
    if differing:
        text = "Of 40 events of 2024-03-20 replayed online, 3 differ from the offline features, by up to 0.75 in risk."
        assert verdict.reasons == [text]


def test_the_curves_are_those_of_the_selected_model(evaluated: Evaluated) -> None:
    calibration = evaluated.evaluation["curves"]["calibration"]
    mean = np.average(calibration["predicted"], weights=calibration["count"])
    assert mean == pytest.approx(evaluated.rows["amount"].mean())


def test_customers_known_as_compromised_are_left_out(tmp_path: Path) -> None:
    frame = samples.features()
    # a fraud on the first training day, known the day after next, whose customer pays again on both test days
    again = window(frame).index[[1, 41]]
    frame.loc[again, "customer"] = frame.loc[0, "customer"]
    samples.write_model(tmp_path / "model", CANDIDATES)

    evaluation, _ = run(tmp_path, frame)

    assert evaluation["test"]["rows"] == 78


def telling(frame: pd.DataFrame) -> pd.DataFrame:
    """The features, with a risk that tells positives apart as well as it can without being taken for a leak."""
    frame["risk"] += np.where(frame["label"].fillna(0) == 1, 0.6, 0)
    return frame


def test_the_champion_is_measured_on_the_same_rows(tmp_path: Path) -> None:
    samples.write_model(tmp_path / "model", CANDIDATES)
    old = samples.write_model(tmp_path / "old", {"only": [0.0, 1.0]})

    evaluation, verdict = run(tmp_path, samples.features(), version(tmp_path / "old"))

    assert evaluation["champion"] == {"version": 3, "sha256": old.sha256, "metrics": evaluation["models"]["second"]}
    assert verdict["compared_with"] == {"version": 3, "sha256": old.sha256}
    assert "champion version 3" in verdict["reasons"][0]
    for name in ("average_precision", "precision_at_k"):
        gain = evaluation["models"]["first"][name] - evaluation["models"]["second"][name]
        assert evaluation["gains"][name]["value"] == pytest.approx(gain)
        assert evaluation["gains"][name]["low"] <= gain <= evaluation["gains"][name]["high"]


@pytest.mark.parametrize(
    ("new", "old", "until", "decision", "says"),
    [
        ([0.0, 1.0], [1.0, 0.0], 16, "pass", "better beyond noise"),
        ([1.0, 0.0], [0.0, 1.0], 16, "fail", "may be worse by more than 0.02"),
        # the same ranking by another model
        ([0.0, 2.0], [0.0, 1.0], 16, "fail", "not fresher: trained until 2024-03-16, the champion until 2024-03-16"),
        ([0.0, 2.0], [0.0, 1.0], 15, "pass", "fresher: trained until 2024-03-16, the champion until 2024-03-15"),
    ],
)
def test_the_better_of_two_models_serves_and_of_equals_the_fresher(
    tmp_path: Path, new: list[float], old: list[float], until: int, decision: str, says: str
) -> None:
    samples.write_model(tmp_path / "model", {"only": new})
    samples.write_model(tmp_path / "old", {"only": old}, trained_until=f"2024-03-{until}")

    _, verdict = run(tmp_path, telling(samples.features()), version(tmp_path / "old"))

    assert verdict["decision"] == decision
    assert says in verdict["reasons"][1]


@pytest.mark.parametrize(("days", "decision"), [(365, "fail"), (2, "fail"), (1, "pass"), (0, "pass")])
def test_an_equal_of_what_serves_is_held_to_the_best_version_before_that(
    tmp_path: Path, days: int, decision: str
) -> None:
    ref = ReleaseRef(str(tmp_path / "registry"), "tiny")
    for number, (weights, until) in enumerate([([0.0, 1.0], 14), ([1.0, 0.0], 15)], 1):
        uri = str(tmp_path / f"version-{number}")
        samples.write_model(Path(uri), {"only": weights}, trained_until=f"2024-03-{until}")
        registry.register(ref.registry, ref.name, uri, {"train_last": f"2024-03-{until}"})
        release_record.promote(ref, number)
    samples.write_model(tmp_path / "model", {"only": [2.0, 0.0]})  # ranks as version 2 does
    features = samples.write_features(tmp_path, telling(samples.features()))
    config = samples.CONFIG | {"evaluation": samples.CONFIG["evaluation"] | {"reference_days": days}}
    values = {"state": state(tmp_path), "config": json.dumps(config), "evaluation": str(tmp_path / "evaluation")}

    evaluate(samples.context(features=features, model=str(tmp_path / "model"), **values), release_record.champion)

    verdict = Verdict.read(str(tmp_path / "evaluation" / "verdict.json"))
    assert (verdict.decision, verdict.compared_with and verdict.compared_with.version) == (decision, 2)
    if decision == "fail":
        assert verdict.caveat == "What serves, version 2, is worse beyond noise than version 1."
        assert verdict.reasons[2] == "The challenger is worse beyond noise than version 1, the best one so far."


def test_each_candidates_figures_come_with_intervals_and_the_selected_ones_with_its_cost(evaluated: Evaluated) -> None:
    _, rows, _, evaluation, verdict = evaluated
    assert set(evaluation["intervals"]) == set(CANDIDATES)
    for candidate, sure in evaluation["intervals"].items():
        assert set(sure) == {"average_precision", "precision_at_k", "cost"}
        for name in ("average_precision", "precision_at_k"):
            assert sure[name]["low"] <= evaluation["models"][candidate][name] <= sure[name]["high"]
    precision = evaluation["intervals"]["first"]["average_precision"]
    assert precision["low"] < precision["high"]
    flagged = rows["amount"].astype(np.float32) >= 0.5
    missed = rows[(rows["label"] == 1) & ~flagged]
    assert evaluation["cost"] == {
        "alerts": flagged.sum(),
        "missed_positives": len(missed),
        "per_1000": pytest.approx(1000 * (5 * flagged.sum() + missed["amount"].sum()) / len(rows)),
        "threshold": 0.5,
    }
    assert evaluation["gains"] is None
    assert f"[{precision['low']:.3f}, {precision['high']:.3f}] on 10 positives" in verdict["reasons"][1]


def test_the_model_card_lies_beside_the_verdict_with_what_the_model_came_from(evaluated: Evaluated) -> None:
    folder, _, model, evaluation, verdict = evaluated
    card = (folder / "evaluation" / "model_card.md").read_text()
    assert card.startswith("# Model card: tiny, first\n")
    for text in (model.sha256, "e" * 64, "f" * 64, "2024-03-18 .. 2024-03-19", *verdict["reasons"]):
        assert text in card
    for metrics in evaluation["models"].values():
        assert f"{metrics['average_precision']:.3f} [" in card
        assert f"| {metrics['precision_at_k_ceiling']:.3f} |" in card


def test_a_window_without_a_fraud_still_has_its_card(tmp_path: Path) -> None:
    frame = samples.features()
    frame.loc[window(frame).index, "label"] = 0
    samples.write_model(tmp_path / "model", CANDIDATES)

    evaluation, verdict = run(tmp_path, frame)

    assert verdict["decision"] == "undecided"
    assert all("average_precision" not in sure for sure in evaluation["intervals"].values())
    assert "Not measured" in (tmp_path / "evaluation" / "model_card.md").read_text()


def _missing(folder: Path) -> None:
    (folder / "model.json").unlink()


def _not_json(folder: Path) -> None:
    (folder / "model.json").write_text("{")


def _other_graph(folder: Path) -> None:
    (folder / "only.onnx").write_bytes(samples.linear([1.0, 1.0]))


def _other_shape(folder: Path) -> None:
    (folder / "model.json").write_text('{"sha256": "x", "inputs": {}}')


def _no_training_days(folder: Path) -> None:
    manifest = json.loads((folder / "model.json").read_text())
    del manifest["lineage"]["train"]
    (folder / "model.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_missing, "model.json does not exist"),
        (_not_json, "is not JSON"),
        (_other_graph, "is not the file that model.json names"),
        (_other_shape, "cannot be read"),
        (_no_training_days, "is no ModelPackage of this version: lineage.train (Field required)"),
    ],
)
def test_a_champion_that_cannot_be_read_does_not_stop_the_challenger(tmp_path: Path, spoil: Any, says: str) -> None:
    samples.write_model(tmp_path / "model", CANDIDATES)
    samples.write_model(tmp_path / "old", {"only": [0.0, 1.0]})
    spoil(tmp_path / "old")

    evaluation, verdict = run(tmp_path, samples.features(), version(tmp_path / "old"))

    assert verdict["decision"] == "pass"
    assert verdict["reasons"][0].startswith("Champion version 3 cannot be read:")
    assert says in verdict["reasons"][0]
    assert verdict["compared_with"] is None
    assert evaluation["champion"] is None


def test_a_champion_whose_store_does_not_answer_stops_the_step(tmp_path: Path) -> None:
    class Unavailable:
        def incompatibility(self, *_: object) -> str:
            raise UnavailableError("s3://models does not answer")

    model = samples.write_model(tmp_path / "old", {"only": [0.0, 1.0]})
    with pytest.raises(UnavailableError):
        measure_version("Champion version 3", version(tmp_path / "old"), Unavailable(), model)


def test_a_champion_that_needs_an_input_the_features_lack_is_not_compared(tmp_path: Path) -> None:
    samples.write_model(tmp_path / "model", CANDIDATES)
    samples.write_model(tmp_path / "old", {"only": [0.0, 1.0]}, inputs=("amount", "mcc_risk"))

    _, verdict = run(tmp_path, samples.features(), version(tmp_path / "old"))

    assert verdict["decision"] == "pass"
    assert verdict["reasons"][0] == "Champion version 3 needs input 'mcc_risk', which the features lack now."


@pytest.mark.slow
def test_the_command_writes_the_verdict_and_reports_the_selected_models_metrics(tmp_path: Path) -> None:
    samples.write_model(tmp_path / "model", CANDIDATES)
    output = {"name": "evaluation", "type": {"schemaTitle": "system.Artifact"}, "uri": str(tmp_path / "evaluation")}
    executor = {"outputs": {"artifacts": {"evaluation": {"artifacts": [output]}}, "outputFile": str(tmp_path / "out")}}

    done = samples.run(
        "evaluation",
        features=samples.write_features(tmp_path, samples.features()),
        model=str(tmp_path / "model"),
        state=state(tmp_path),
        evaluation=str(tmp_path / "evaluation"),
        executor_input=json.dumps(executor),
    )

    assert done.returncode == 0, done.stderr
    verdict = json.loads((tmp_path / "evaluation" / "verdict.json").read_text())
    assert (verdict["decision"], verdict["reasons"][0]) == ("pass", "There was no champion to compare with.")
    metadata = json.loads((tmp_path / "out").read_text())["artifacts"]["evaluation"]["artifacts"][0]["metadata"]
    assert metadata["passed"] == 1
    measures = {measure["name"]: measure["value"] for measure in verdict["measures"]}
    for name in ("auc_roc", "average_precision", "precision_at_k"):
        assert metadata[name] == measures[name]
