"""A night of a table of classes: windows, candidates, the gate, scores, answers, drift and releases."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import f1_score

from nightshift.contracts import tables
from nightshift.contracts.evaluation import ClassEvaluation
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Decision
from nightshift.data import splits
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.serving.prediction_log import PredictionLog
from nightshift.tabular import reasons
from nightshift.tabular.inputs import FrameScorer, matrix
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.multiclass.drift import DriftTask
from nightshift.tasks.multiclass.optimization import OptimizationTask
from nightshift.tasks.multiclass.release import ReleaseTask
from nightshift.tasks.multiclass.scoring import ScoringTask
from nightshift.tasks.multiclass.training import MulticlassRows
from nightshift.tasks.tabular.examples import ExamplesTask
from tests.nightshift.serving.conftest import serving
from tests.nightshift.tasks.multiclass.tickets import DATE, Tickets, config


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Tickets:
    return Tickets(config(), tmp_path_factory.mktemp("tickets"))


def figures(night: Tickets) -> ClassEvaluation:
    assert isinstance(night.report.figures, ClassEvaluation)
    return night.report.figures


def test_windows_count_a_customers_tickets_and_the_online_state_repeats_them(night: Tickets) -> None:
    day = DATE - timedelta(days=3)
    rows = night.features.read([day - timedelta(days=1), day])
    last = rows.iloc[-1]
    since = last["event_time"] - timedelta(days=1)

    own = rows[(rows["customer"] == last["customer"]) & (rows["event_time"] > since)]

    assert last["customer_count_1d"] == len(own)
    assert night.features.details["replay"]["differing"] == 0


def test_the_model_of_highest_accuracy_passes_its_floors_as_classes_of_images_do(night: Tickets) -> None:
    measures = {measure.name: measure for measure in night.report.verdict.measures}

    assert night.model.lineage.reason.startswith(f"{night.model.selected} has the highest accuracy")
    assert night.report.verdict.decision is Decision.PASS
    assert {"accuracy", "macro_f1", "log_loss", "calibration_error", "lowest_class_recall"} <= measures.keys()
    assert measures["accuracy"].interval and measures["macro_f1"].interval
    assert measures["test_groups"].value == night.tested.rows["customer"].nunique()


def test_the_report_has_the_recall_and_confusion_of_classes_slices_and_the_surest_mistakes(night: Tickets) -> None:
    evaluated, rows = figures(night), night.tested.rows
    titles = [getattr(block, "title", "") for block in night.report.blocks]

    assert [figure.name for figure in evaluated.classes] == night.config.task.classes
    assert np.sum(evaluated.confusion) == len(rows) and evaluated.left_out == 0
    assert {part.name.split("=")[0].split(" ")[0] for part in evaluated.slices} == {
        "product", "plan", "channel", "words", "attachments",
    }  # fmt: skip
    assert {"Classes, the weakest first", "What is taken for what", "Calibration", "The surest mistakes"} <= {*titles}
    assert "left out" not in night.report.card and "independent" not in night.report.card


@pytest.mark.slow
def test_metrics_are_those_of_scikit_learns_boosting_on_the_same_days(night: Tickets) -> None:
    sample, rows = MulticlassRows(night.setup).sample(night.setup.plan.test), night.tested.rows
    theirs = HistGradientBoostingClassifier(max_iter=30, max_depth=3, random_state=0).fit(
        sample.matrix, sample.rows["label"].astype(str)
    )
    predicted, labels = theirs.predict(matrix(night.model.inputs, rows)), rows["label"].astype(str)

    ours = figures(night).models["xgboost"]

    assert ours["accuracy"] == pytest.approx((predicted == labels).mean(), abs=0.03)
    assert ours["macro_f1"] == pytest.approx(f1_score(labels, predicted, average="macro"), abs=0.04)


def scored(night: Tickets, day: Any) -> pd.DataFrame:
    return pd.concat(ScoringTask().scorer(night.uri, night.model).batches(night.features, day))


def test_a_days_scores_carry_the_class_with_the_highest(night: Tickets) -> None:
    rows, probabilities = scored(night, DATE), FrameScorer(night.uri, night.model).score(night.read(DATE))

    assert list(rows.columns) == ["event_id", "event_time", "predicted", "score"]
    assert rows["score"].tolist() == probabilities.max(axis=1).tolist()
    assert rows["predicted"].iloc[0] == night.config.task.classes[probabilities[0].argmax()]
    assert probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_a_manifest_names_its_classes_and_is_read_again(night: Tickets) -> None:
    again = ModelPackage.read(f"{night.uri}/model.json")

    assert (again.kind, again.preprocessing.labels) == ("tabular-classification", night.config.task.classes)
    assert again.signature.score.shape == [-1, 5]
    assert again.sha256 == night.model.sha256


def test_classes_have_no_reasons_and_say_that_it_is_for_their_task(night: Tickets) -> None:
    assert reasons.missing(night.model) == "scores of task tabular-classification have no reasons"


def test_a_request_is_made_of_a_real_event_and_scored_as_the_night_scores_it(night: Tickets) -> None:
    example = ExamplesTask().from_files(night.uri, night.model, night.features.details["online"])

    assert example.name == "events" and "queue" not in example.event
    assert example.score == pytest.approx(scored(night, DATE)["score"].iloc[-1], abs=1e-6)


def test_versions_are_compared_by_the_brier_score_of_customers(night: Tickets) -> None:
    day = DATE - timedelta(days=3)
    (losses,) = ReleaseTask().losses(night.features, day, [night.uri])
    slices = ReleaseTask().slices(night.features, day, ["channel"])

    assert len(losses) == len(slices) == night.read(day)["customer"].nunique()
    assert 0 < losses.mean() < 0.4  # half of 0.8, that of five classes that are equally likely


def test_a_form_of_the_graph_is_judged_by_the_accuracy_of_the_validation_days(night: Tickets) -> None:
    _, rows = OptimizationTask().read_samples(night.config, night.features, night.uri, night.model, 0.01)
    sure = np.eye(5, dtype=np.float32)[rows.labels]

    assert rows.quality(sure) == 1
    assert rows.quality(sure[:, ::-1]) < rows.resample(sure).min() == 1


def drift(night: Tickets, model: ModelPackage, change: dict[str, str]) -> dict[str, Any]:
    """The signals of labels of which some classes are called otherwise."""
    folder = night.folder / f"drift-{len(change)}-{len(model.lineage.unlearned)}"
    days = splits.monitoring_window(night.config, DATE, night.model.lineage.train.last)
    promised = {"metric": "accuracy", "value": figures(night).models[night.model.selected]["accuracy"],
                "measured": "when it was evaluated"}  # fmt: skip
    parts, changed = [], []
    for day in days:
        parts.append(tables.write_partition(f"{folder}/scores-{day}.parquet", day, scored(night, day), {}))
        rows = night.read(day).replace({"label": change})
        changed.append(tables.write_partition(f"{folder}/features-{day}.parquet", day, rows, {}))
    scores, features = Table("scores", parts, {"promised": promised}), Table("features", changed)
    reference = pd.read_parquet(f"{night.uri}/reference.parquet")
    inputs = DriftInputs(night.config, DATE, features, scores, night.uri, model, reference)
    comparison = DriftTask().comparison(inputs)
    assert "predicted" in comparison.reference and "predicted" not in comparison.numeric
    return {signal.name: signal for signal in comparison.labeled_signals()}


def test_labels_as_they_were_raise_nothing(night: Tickets) -> None:
    signals = drift(night, night.model, {})

    assert [*signals] == ["performance"] and not signals["performance"].raised


def test_labels_that_are_others_raise_the_loss_of_accuracy(night: Tickets) -> None:
    signals = drift(night, night.model, {"technical": "account", "account": "technical"})

    assert signals["performance"].raised


def test_a_class_that_no_training_row_has_is_counted_when_its_labels_arrive(night: Tickets) -> None:
    lineage = night.model.lineage.model_copy(update={"unlearned": ["returns"]})
    signals = drift(night, night.model.model_copy(update={"lineage": lineage}), {"billing": "returns"})

    assert signals["classes"].raised
    assert "labeled rows are of classes that no training row of the model has: 'returns'" in signals["classes"].reason


def test_a_class_without_training_rows_is_named_and_never_predicted(tmp_path: Path, night: Tickets) -> None:
    setup = night.change_labels(tmp_path, {"returns": "delivery"})
    sample = MulticlassRows(setup).sample(setup.plan.test)

    assert sample.unlearned_classes == ["returns"]
    for name in night.config.task.candidates:
        fitted = sample.fit(name)
        assert sample.export_error(fitted) <= sample.tolerance
        assert Graph(fitted.graph).score(sample.matrix)[:, night.config.task.classes.index("returns")].max() < 1e-6


def test_rows_of_one_class_train_nothing(tmp_path: Path, night: Tickets) -> None:
    setup = night.change_labels(tmp_path, dict.fromkeys(night.config.task.classes, "account"))

    with pytest.raises(UserError, match="rows are of class 'account', and a model needs two or more"):
        _ = MulticlassRows(setup).sample(setup.plan.test).unlearned_classes


def test_a_version_of_other_classes_cannot_be_compared(night: Tickets) -> None:
    others = night.model.preprocessing.model_copy(update={"classes": ["a", "b"]})

    theirs = night.model.model_copy(update={"preprocessing": others})

    assert night.tested.incompatibility(night.model, theirs) == "tells other classes apart"
    assert night.tested.incompatibility(night.model, night.model) == ""


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (
            {"kind": "xgboost", "parameters": {"n_estimatorz": 1}},
            "task.candidates.one.parameters.n_estimatorz: unknown",
        ),
        ({"kind": "xgboost", "parameters": {"objective": "multi:softmax"}}, "parameters.objective: unknown"),
        ({"kind": "logistic_regression", "parameters": {"C": -1.0}}, "LogisticRegression refuses them: .*'C'"),
    ],
)
def test_what_a_candidate_cannot_do_is_refused_before_hours_of_work(
    night: Tickets, candidate: dict[str, Any], expected: str
) -> None:
    setup = replace(night.setup, config=config({"one": candidate}))

    with pytest.raises(UserError, match=expected):
        MulticlassRows(setup).sample(setup.plan.validation).check()


def test_a_server_answers_events_features_and_tensors_with_a_class_and_the_probability_of_each(
    tmp_path: Path, night: Tickets
) -> None:
    online, classes = night.features.details["online"], night.config.task.classes
    example, inputs = ExamplesTask().from_files(night.uri, night.model, online), night.model.inputs
    rows = night.read(DATE).tail(2)
    features = [{name: value if name in inputs.numeric else str(value) for name, value in row.items()}
                for row in rows[inputs.columns].to_dict("records")]  # fmt: skip
    tensor = {"name": "inputs", "datatype": "FP32", "shape": [2, inputs.width]}
    log = PredictionLog(str(tmp_path / "log"))

    with serving(night.uri, tmp_path / "current.json", snapshot=online, predictions=log) as running:
        of_event, of_features, of_tensor, label, schema = (
            httpx.post(f"{running.url}/score", json={"events": [example.event]}).json(),
            httpx.post(f"{running.url}/score", json={"instances": features}).json(),
            httpx.post(
                f"{running.url}/v2/models/fraud/infer",
                json={"inputs": [tensor | {"data": matrix(inputs, rows).ravel().tolist()}]},
            ).json(),
            httpx.post(f"{running.url}/labels", json={"labels": []}),
            httpx.get(f"{running.url}/openapi.json").json(),
        )
        log.close()

    expected = scored(night, DATE).tail(2)
    assert of_event["predictions"][0]["score"] == pytest.approx(example.score, abs=1e-6)
    assert [prediction["label"] for prediction in of_features["predictions"]] == expected["predicted"].tolist()
    assert [*of_features["predictions"][0]["scores"]] == classes
    tensors = {output["name"]: output for output in of_tensor["outputs"]}
    assert (tensors["score"]["shape"], tensors["label"]["data"]) == ([2, 5], expected["predicted"].tolist())
    assert label.status_code == 400 and label.json()["field"] == "labels"
    assert "/labels" not in schema["paths"]
    logged = pd.concat(pd.read_parquet(file) for file in (tmp_path / "log").glob("date=*/*.parquet"))
    assert {*logged["label"]} <= {*classes} and len(logged) == 5
