"""A night of texts with any number of labels each, from simulated days to a served model."""

from datetime import date
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

from nightshift import storage
from nightshift.config import parse
from nightshift.contracts import evaluation, package, tables
from nightshift.contracts.deployment import Deployment
from nightshift.contracts.drift import DriftReport
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import read_section
from nightshift.data import splits
from nightshift.items import metrics, shards
from nightshift.items.labels import decode
from nightshift.items.scorer import ClassScorer
from nightshift.runtime.errors import UserError
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.classification import drift, kinds
from nightshift.tasks.classification.evaluation import EvaluationTask
from nightshift.tasks.classification.release import ReleaseTask
from tests.components import topics
from tests.components.tales import Night
from tests.nightshift.serving.conftest import serving
from tests.nightshift.serving.texts import TEXTS, inputs

pytestmark = pytest.mark.slow

DATE = "2024-03-10"
CONFIG = topics.config(label_separator="|") | {
    "simulator": {"items": 24, "label_share": 0.4},
    "drift": {"window_days": 2, "min_rows": 20},
    "evaluation": {"min_rows": 20, "min_accuracy": 0.0, "min_class_rows": 5},
}
CLASSES = CONFIG["task"]["classes"]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    done = Night(tmp_path_factory.mktemp("labels"), DATE, CONFIG)
    done.run()
    return done


@pytest.fixture(scope="module")
def uri(night: Night) -> str:
    return str(night.folder / "model")


@pytest.fixture(scope="module")
def features(night: Night) -> tables.Table:
    return tables.read_table(str(night.folder / "features.json"))


def one_class_each(model: ModelPackage) -> ModelPackage:
    return model.model_copy(update={"decision": package.DecisionRule(threshold=None)})


def test_a_model_of_any_number_of_labels_is_trained_measured_and_promoted(night: Night, uri: str) -> None:
    model, figures = (
        package.load(uri),
        evaluation.ClassEvaluation.read(str(night.folder / "evaluation/evaluation.json")),
    )
    assert set(model.candidates) == {"words", "bert"}
    assert model.lineage.selected_by == "macro_average_precision"
    assert len(model.decision.thresholds) == len(CLASSES)
    measured, sure = figures.models[model.selected], figures.intervals[model.selected]
    for name in ("macro_average_precision", "micro_f1"):
        assert sure[name].low < measured[name] < sure[name].high
    ranked = [figure.average_precision for figure in figures.classes]
    assert np.mean(ranked) == pytest.approx(measured["macro_average_precision"])
    assert figures.confusion == []
    assert "Threshold" in str(read_section(str(night.folder / "evaluation")))
    card = (night.folder / "evaluation/model_card.md").read_text()
    assert f"finance {model.decision.thresholds[0]:.3f}" in card
    assert Deployment.read(str(night.folder / "deployment.json")).decision == "promoted"


def test_the_simulator_draws_none_one_and_several_labels(features: tables.Table) -> None:
    labels = decode(features.read([date.fromisoformat(DATE)])["label"], CLASSES)
    assert {0, 1, 2} <= set(labels.sum(1).tolist())


def test_scores_decide_by_threshold_and_drift_compares_how_often_each_class_is_predicted(
    night: Night, uri: str, features: tables.Table
) -> None:
    model, day = package.load(uri), date.fromisoformat(DATE)
    scores = tables.read_table(str(night.folder / "scores/scores.json"))
    frame = storage.read_frame(scores.partition(day).uri)
    expected = ClassScorer(uri, model).score(shards.map_shard(features.partition(day)))
    assert np.array_equal(decode(frame["predicted"], CLASSES), expected >= model.decision.thresholds)
    report = DriftReport.read(str(night.folder / "drift/drift.json"))
    assert {f"predicted {name}" for name in CLASSES} <= {column.name for column in report.columns}
    assert [signal.name for signal in report.signals][-1] == "performance"


def test_the_endpoint_answers_a_probability_and_a_decision_for_each_class(night: Night, uri: str) -> None:
    model = package.load(uri)
    expected = ClassScorer(uri, model).score(inputs(uri, *TEXTS))
    with serving(uri, night.folder / "served/current.json") as running:
        body = {"instances": [{"text": text} for text in TEXTS]}
        answers = httpx.post(f"{running.url}/score", json=body).json()["predictions"]
        described = httpx.get(f"{running.url}/openapi.json").text
        tensor = {"name": "text", "datatype": "BYTES", "shape": [len(TEXTS)], "data": TEXTS}
        outputs = httpx.post(f"{running.url}/v2/models/fraud/infer", json={"inputs": [tensor]}).json()["outputs"]
    decided = expected >= model.decision.thresholds
    assert [[*answer["labels"].values()] for answer in answers] == decided.tolist()
    assert np.array([[*answer["scores"].values()] for answer in answers]) == pytest.approx(expected)
    assert [answer["score"] for answer in answers] == pytest.approx(expected.max(1).tolist())
    assert '"labels"' in described
    texts = next(output["data"] for output in outputs if output["name"] == "label")
    assert np.array_equal(decode(texts, CLASSES), decided)


def test_models_of_one_class_each_are_neither_rivals_nor_watched(uri: str, features: tables.Table) -> None:
    config, model = parse(CONFIG), package.load(uri)
    fold = splits.plan(config, date.fromisoformat(DATE)).test
    rows = EvaluationTask().read_test_rows(config, features, fold, model)
    single, sentence = one_class_each(model), "gives each item one class, and task.label_separator is set"
    assert (rows.incompatibility(model, model), rows.incompatibility(model, single)) == ("", sentence)
    watched = DriftInputs(config, date.fromisoformat(DATE), features, features, uri, single, pd.DataFrame())
    with pytest.raises(UserError, match=f"the model {sentence}; train again"):
        drift.DriftTask().comparison(watched)
    reverse = kinds.find_other_labels(parse(topics.CONFIG).task, model)
    assert reverse == "gives an item any number of classes, and task.label_separator is not set"


def test_versions_are_released_by_their_errors_over_all_classes_that_one_of_them_knows(
    tmp_path: Path, uri: str, features: tables.Table
) -> None:
    day, model = date.fromisoformat(DATE), package.load(uri)
    package.copy(uri, str(tmp_path / "fewer"))
    fewer = model.preprocessing.model_copy(update={"classes": ["finance", "health", "sports", "opera"]})
    model.model_copy(update={"preprocessing": fewer}).write(str(tmp_path / "fewer/model.json"))
    ours, theirs = ReleaseTask().losses(features, day, [uri, str(tmp_path / "fewer")])
    labels, part = decode(features.read([day])["label"], [*CLASSES, "opera"]), features.partition(day)
    scores = ClassScorer(uri, model).score(shards.map_shard(part))
    of_all = np.column_stack([scores, np.zeros(len(scores))])
    assert ours == pytest.approx(metrics.multilabel_brier(labels, of_all))
    assert theirs == pytest.approx(metrics.multilabel_brier(labels, of_all[:, [0, 1, 2, 4, 3]]))
    one_class_each(model).write(str(tmp_path / "fewer/model.json"))
    with pytest.raises(UserError, match=r"task\.label_separator: is set for one version and not for another; `nights"):
        ReleaseTask().losses(features, day, [uri, str(tmp_path / "fewer")])
