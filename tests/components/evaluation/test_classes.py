"""The gate where a task has classes, and what is written of it."""

import json
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest

from components.evaluation.__main__ import evaluate
from nightshift import storage
from nightshift.contracts import evaluation, package, verdict
from nightshift.contracts.section import read_section
from nightshift.contracts.verdict import Decision
from nightshift.registry import Version
from nightshift.runtime.context import StepContext
from nightshift.tasks.classification import judging
from nightshift.tasks.classification.judging import LabeledItems
from nightshift_testkit import packages
from tests.components import pictures
from tests.components.states import state

CLASSES = ["circle", "cross", "square", "triangle"]
RANDOM = np.random.default_rng(0)
ROWS = LabeledItems(RANDOM.integers(0, 4, 400), np.arange(400), CLASSES)
MODEL = packages.manifest({"net": b"a"})


def scores(wrong: int, shift: int = 1) -> np.ndarray:
    """Scores that are wrong about the first so many rows."""
    taken = np.where(np.arange(400) < wrong, (ROWS.labels + shift) % 4, ROWS.labels)
    return 0.9 * np.eye(4)[taken] + 0.025


def contender(wrong: int, sha256: str = "new", until: str = "2024-03-20", version: int = 0):
    measured = judging.measure(ROWS, scores(wrong), MODEL, version)
    return replace(measured, sha256=sha256, trained_until=until)


def judged(challenger, champion="There was no champion to compare with.", **limits):
    return judging.judge(challenger, champion, pictures.parsed(evaluation=limits))


def champion(wrong: int, until: str = "2024-03-19"):
    return contender(wrong, "old", until, version=3)


def test_a_reference_holds_images_and_texts_too():
    reference = contender(10, "best", "2024-03-01", version=2)
    verdict = judging.judge(contender(40), champion(40), pictures.parsed(), reference)
    assert verdict.decision is Decision.FAIL
    assert "worse beyond noise than version 2" in verdict.reasons[0]
    assert (verdict.reference.version, verdict.compared_with.version) == (2, 3)


def test_without_a_champion_the_floors_are_all_there_is_to_pass():
    assert judged(contender(40), min_accuracy=0.9).decision is Decision.PASS
    below = judged(contender(41), min_accuracy=0.9)
    assert below.decision is Decision.FAIL
    assert below.reasons[-1] == "Accuracy 0.897 is below the floor 0.9."


def test_the_weakest_class_has_a_floor_of_its_own():
    taken = np.where(ROWS.labels == 2, 1, ROWS.labels)
    weak = judging.measure(ROWS, np.eye(4)[taken], MODEL)
    verdict = judged(weak, min_accuracy=0.5, min_class_recall=0.1)
    assert verdict.decision is Decision.FAIL
    assert verdict.reasons[-1] == "Recall of class 'square' is 0.000, below the floor 0.1."
    assert judged(weak, min_accuracy=0.5, min_class_recall=0.1, min_class_rows=200).decision is Decision.PASS


def test_with_few_rows_nothing_is_decided():
    assert judged(contender(400), min_rows=401).decision is Decision.UNDECIDED


@pytest.mark.parametrize(("groups", "decision"), [(19, Decision.UNDECIDED), (20, Decision.PASS)])
def test_with_few_groups_nothing_is_decided_however_many_their_rows(groups, decision):
    grouped = LabeledItems(ROWS.labels, np.arange(400) % groups, CLASSES)
    verdict = judged(judging.measure(grouped, scores(0), MODEL))
    assert verdict.decision is decision
    assert verdict.value("test_groups") == groups
    few = "The 400 test rows are of 19 groups; at least 20 are needed to decide."
    assert (few in verdict.reasons) == (decision is Decision.UNDECIDED)


@pytest.mark.parametrize(
    ("wrong", "before", "until", "decision"),
    [
        (20, 80, "2024-03-01", Decision.PASS),  # better, however old
        (40, 40, "2024-03-20", Decision.PASS),  # as good, and fresher
        (40, 40, "2024-03-19", Decision.FAIL),  # as good, and not fresher
        (80, 40, "2024-03-20", Decision.FAIL),  # worse
    ],
)
def test_a_champion_is_replaced_by_what_is_better_or_as_good_and_fresher(wrong, before, until, decision):
    verdict = judged(contender(wrong, until=until), champion(before))
    assert verdict.decision is decision
    assert verdict.compared_with.version == 3
    assert verdict.value("accuracy_gain") == pytest.approx((before - wrong) / 400)


SQUARE = int((ROWS.labels == 2).sum())
UNLEARNED = f"{SQUARE} of 400 test rows are of classes that no training row has, so the model cannot tell them: "


def without_square(sha256: str = "new", version: int = 0) -> judging.ItemContender:
    """A model that no training row has shown a square, and that is right otherwise."""
    model = packages.manifest({"net": b"a"}, made_from=packages.lineage(unlearned=["square"]))
    taken = np.where(ROWS.labels == 2, 1, ROWS.labels)
    measured = judging.measure(ROWS, 0.9 * np.eye(4)[taken] + 0.025, model, version)
    return replace(measured, sha256=sha256, trained_until="2024-03-19" if version else "2024-03-20")


@pytest.mark.parametrize(
    ("rival", "limits", "decision"),
    [
        ("There was no champion to compare with.", {}, Decision.PASS),
        ("There was no champion to compare with.", {"min_class_recall": 0.1}, Decision.FAIL),
        ("There was no champion to compare with.", {"min_rows": 401}, Decision.UNDECIDED),
        (without_square("old", 3), {}, Decision.PASS),  # fresher, and no worse than what serves
        (champion(200), {}, Decision.FAIL),  # better, but it would forget a class
        (champion(200), {"min_class_rows": 200}, Decision.PASS),  # few rows of it decide nothing
    ],
)
def test_a_class_that_no_training_row_has_is_said_and_never_forgotten(rival, limits, decision):
    verdict = judged(without_square(), rival, min_accuracy=0.5, **limits)
    assert verdict.decision is decision
    assert verdict.reasons[-1] == f"{UNLEARNED}'square' ({SQUARE})."
    assert verdict.value("unlearned_class_rows") == SQUARE
    forgotten = f"Champion version 3 has learned class 'square', which {SQUARE} test rows have and no training row"
    assert any(reason.startswith(forgotten) for reason in verdict.reasons) == (
        decision is Decision.FAIL and not isinstance(rival, str)
    )


def test_a_class_without_training_rows_and_without_test_rows_is_nobody_s_loss():
    rows = LabeledItems(np.where(ROWS.labels == 2, 1, ROWS.labels), ROWS.groups, CLASSES)
    model = packages.manifest({"net": b"a"}, made_from=packages.lineage(unlearned=["square"]))
    verdict = judged(judging.measure(rows, np.eye(4)[rows.labels], model), min_accuracy=0.5)
    assert verdict.value("unlearned_class_rows") == 0
    assert "no training row" not in str(verdict.reasons)


def test_a_model_is_not_compared_with_itself():
    same = contender(10, "same")
    assert judged(same, contender(10, "same", version=3)).decision is Decision.UNDECIDED


def test_the_gain_is_paired():
    one, other = contender(40), champion(40)
    gain = one.gains(other)["accuracy"]
    assert (gain.low, gain.high) == (0, 0)


def test_calibration_adds_up_to_all_rows():
    curve = judging.calibration(ROWS, scores(40))
    assert sum(curve.count) == 400
    assert curve.predicted == pytest.approx([0.925])
    assert curve.observed == pytest.approx([0.9])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with features and a model."""
    folder = tmp_path_factory.mktemp("judged")
    pictures.prepare(folder)
    flags = {"config": json.dumps(pictures.CONFIG), "date": pictures.DATE, "state": state(folder)}
    flags |= {"features": str(folder / "features.json"), "model": str(folder / "model")}
    pictures.train(folder, pictures.CONFIG)
    return folder, flags


@pytest.mark.slow
def test_the_step_writes_figures_a_section_and_a_verdict_about_the_model(trained, tmp_path):
    folder, flags = trained
    metrics = evaluate(StepContext(Namespace(**flags, evaluation=str(tmp_path))), lambda _: None)
    model = package.load(str(folder / "model"))
    figures = evaluation.ClassEvaluation.read(str(tmp_path / evaluation.FILE))
    outcome = verdict.Verdict.read(str(tmp_path / verdict.FILE))
    assert (outcome.subject, outcome.gate) == (model.sha256, "evaluation")
    assert figures.test.rows == np.sum(figures.confusion) == 48
    assert figures.models["resnet"]["accuracy"] == np.trace(figures.confusion) / 48 == metrics["accuracy"]
    assert [part.name for part in figures.classes] == CLASSES
    assert metrics["classification"]["confusionMatrix"]["rows"][0]["row"] == figures.confusion[0]
    assert "Classes, the weakest first" in [getattr(block, "title", "") for block in read_section(str(tmp_path)).blocks]


@pytest.mark.slow
def test_a_champion_is_measured_on_the_same_rows(trained, tmp_path):
    folder, flags = trained
    itself = Version("shapes", 4, str(folder / "model"), package.load(str(folder / "model")).sha256, {})
    evaluate(StepContext(Namespace(**flags, evaluation=str(tmp_path))), lambda uri: itself)
    figures = evaluation.ClassEvaluation.read(str(tmp_path / evaluation.FILE))
    assert figures.champion.metrics == figures.models["resnet"]
    assert figures.gains["accuracy"].value == 0


@pytest.mark.slow
def test_a_champion_of_other_classes_is_not_compared_with(trained, tmp_path):
    folder, flags = trained
    model = package.load(str(folder / "model"))
    other = model.preprocessing.model_copy(update={"classes": [*CLASSES[:3], "hexagon"]})
    model.model_copy(update={"preprocessing": other}).write(storage.join(str(tmp_path), "old", package.MANIFEST))
    version = Version("shapes", 4, str(tmp_path / "old"), "old", {})
    evaluate(StepContext(Namespace(**flags, evaluation=str(tmp_path / "out"))), lambda uri: version)
    outcome = verdict.Verdict.read(str(tmp_path / "out" / verdict.FILE))
    assert outcome.reasons[0] == "Champion version 4 takes other inputs, or tells other classes apart."
