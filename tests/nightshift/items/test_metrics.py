"""Metrics of classes, beside scikit-learn's, and how sure they are."""

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sklearn

from nightshift.items import metrics
from nightshift.stats import bootstrap
from nightshift.tasks.classification.metrics import METRICS

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 5, 400)
SCORES = RANDOM.dirichlet(np.ones(6), 400) + 0.4 * np.eye(6)[LABELS]
SCORES /= SCORES.sum(1, keepdims=True)


def test_metrics_are_those_of_scikit_learn():
    measured, predicted = metrics.evaluate(LABELS, SCORES), SCORES.argmax(1)
    assert measured["accuracy"] == sklearn.accuracy_score(LABELS, predicted)
    # the sixth class never occurs, and does not count
    f1 = sklearn.f1_score(LABELS, predicted, labels=range(5), average="macro")
    assert measured["macro_f1"] == pytest.approx(f1)
    assert measured["log_loss"] == pytest.approx(sklearn.log_loss(LABELS, SCORES, labels=range(6)))
    assert measured["top_5_accuracy"] == sklearn.top_k_accuracy_score(LABELS, SCORES, k=5, labels=range(6))
    five = SCORES[:, :5] / SCORES[:, :5].sum(1, keepdims=True)
    ours, theirs = metrics.auc_roc(LABELS, five), sklearn.roc_auc_score(LABELS, five, multi_class="ovr")
    assert ours == pytest.approx(theirs)
    assert measured["auc_roc"] == metrics.auc_roc(LABELS, SCORES)


def test_every_metric_has_a_title():
    flags = np.arange(6) == LABELS[:, None]
    measured = metrics.evaluate(LABELS, SCORES), metrics.evaluate(flags, SCORES, [0.5] * 6)
    assert {metric.name for metric in METRICS} == {name for figures in measured for name in figures}


def test_metrics_without_a_meaning_are_none():
    assert metrics.evaluate(LABELS, SCORES[:, :5])["top_5_accuracy"] is None
    assert metrics.evaluate(np.zeros_like(LABELS), SCORES)["auc_roc"] is None


def test_each_class_has_the_figures_of_scikit_learn():
    counts = metrics.confusion(LABELS, SCORES.argmax(1), 6)
    assert np.array_equal(counts, sklearn.confusion_matrix(LABELS, SCORES.argmax(1), labels=range(6)))
    precision, recall, f1, _ = sklearn.precision_recall_fscore_support(LABELS, SCORES.argmax(1), labels=range(5))
    figures = metrics.by_class(metrics.count_rows(LABELS, SCORES.argmax(1), 6))
    for ours, theirs in zip(figures, (precision, recall, f1), strict=True):
        assert ours[:5] == pytest.approx(theirs)


def test_scores_that_are_right_as_often_as_they_say_have_no_calibration_error():
    labels = np.repeat([0, 0, 0, 1], 100)
    assert metrics.calibration_error(labels, np.tile([0.75, 0.25], (400, 1))) == pytest.approx(0)
    assert metrics.calibration_error(labels, np.tile([0.95, 0.05], (400, 1))) == pytest.approx(0.2)


def test_rows_of_one_group_are_drawn_together_and_are_less_sure():
    groups, predicted = np.repeat(np.arange(40), 10), np.where(np.repeat(RANDOM.random(40) < 0.8, 10), LABELS, 5)
    alone = metrics.resample(LABELS, predicted, np.arange(400), 6)["accuracy"]
    together = metrics.resample(LABELS, predicted, groups, 6)["accuracy"]
    assert alone.mean() == pytest.approx(np.mean(predicted == LABELS), abs=0.01)
    assert together.std() > 2 * alone.std()


def test_two_scorers_meet_the_same_resamples():
    first = metrics.resample(LABELS, SCORES.argmax(1), np.arange(400), 6)
    again = metrics.resample(LABELS, SCORES.argmax(1), np.arange(400), 6)
    assert all(np.array_equal(first[name], again[name]) for name in ("accuracy", "macro_f1"))


def test_without_groups_each_row_is_its_own():
    rows = pd.DataFrame({"group": ["b", "a", "b"]})
    assert bootstrap.number_groups(rows).tolist() == [0, 1, 0]
    assert bootstrap.number_groups(rows[[]]).tolist() == [0, 1, 2]


def test_half_the_brier_score_is_the_squared_error_over_classes_and_lies_between_0_and_1():
    squared = np.square(SCORES - np.eye(6)[LABELS]).sum(1)
    assert metrics.half_brier(LABELS, SCORES) == pytest.approx(squared / 2)
    assert squared.mean() == pytest.approx(sklearn.brier_score_loss(LABELS, SCORES, labels=range(6)))
    # sure and right, sure and wrong, sure of another class than one that has no score
    scores = metrics.half_brier(np.array([0, 1, -1]), np.float32([[1.0000001, 0]] * 3))
    assert scores == pytest.approx([0, 1, 1]) and scores.max() <= 1


FLAGS = RANDOM.random((400, 5)) < [0.5, 0.3, 0.1, 0.02, 0]  # which classes each row has; nobody has the last one
LIKELY = np.clip(RANDOM.random((400, 5)) * 0.7 + 0.3 * FLAGS, 1e-3, 1 - 1e-3).round(2)  # with ties
THRESHOLDS = [0.4, 0.5, 0.6, 0.9, 0.5]


def test_metrics_of_any_number_of_labels_are_those_of_scikit_learn():
    measured, predicted = metrics.evaluate(FLAGS, LIKELY, THRESHOLDS), LIKELY >= THRESHOLDS
    known = FLAGS[:, :4], LIKELY[:, :4]  # the fifth class never occurs, and does not count
    assert measured["accuracy"] == sklearn.accuracy_score(FLAGS, predicted)
    assert measured["micro_f1"] == pytest.approx(sklearn.f1_score(FLAGS, predicted, average="micro"))
    assert measured["macro_f1"] == pytest.approx(sklearn.f1_score(known[0], predicted[:, :4], average="macro"))
    ranked = sklearn.average_precision_score(*known, average="macro")
    assert measured["macro_average_precision"] == pytest.approx(ranked)
    assert np.isnan(metrics.average_precisions(FLAGS, LIKELY)[4])
    assert measured["auc_roc"] == pytest.approx(sklearn.roc_auc_score(*known, average="macro"))
    losses = [sklearn.log_loss(flags, likely, labels=[0, 1]) for flags, likely in zip(FLAGS.T, LIKELY.T, strict=True)]
    assert measured["log_loss"] == pytest.approx(np.mean(losses))
    brier = metrics.multilabel_brier(FLAGS, LIKELY)
    assert brier.mean() == pytest.approx(sklearn.mean_squared_error(FLAGS, LIKELY))


def test_thresholds_are_those_with_the_highest_f1():
    thresholds = metrics.choose_thresholds(FLAGS, LIKELY)
    for flags, likely, threshold in zip(FLAGS.T[:4], LIKELY.T[:4], thresholds[:4], strict=True):
        best = max(sklearn.f1_score(flags, likely >= limit) for limit in np.unique(likely))
        assert sklearn.f1_score(flags, likely >= threshold) == best
        assert threshold not in likely  # so that the last bits of a score decide nothing
    assert thresholds[4] == 0.5


def test_any_number_of_labels_is_resampled_by_group_like_one():
    groups = np.repeat(np.arange(40), 10)
    drawn = metrics.resample(FLAGS, LIKELY >= THRESHOLDS, groups, 5)
    drawn["macro_average_precision"] = metrics.resample_average_precision(FLAGS, LIKELY, groups)
    for number, counts in enumerate(list(bootstrap.draw_counts(40))[:5]):
        rows = np.repeat(np.arange(400), counts[groups].astype(int))
        again = metrics.evaluate(FLAGS[rows], LIKELY[rows], THRESHOLDS)
        for name, values in drawn.items():
            assert values[number] == pytest.approx(again[name])


def test_the_area_under_the_roc_curve_of_weighted_rows_is_that_of_scikit_learn():
    weights = RANDOM.integers(0, 4, 400).astype(float)
    areas = metrics.auc_rocs(FLAGS, LIKELY, weights)
    theirs = sklearn.roc_auc_score(FLAGS[:, :4], LIKELY[:, :4], average=None, sample_weight=weights)
    assert areas[:4] == pytest.approx(theirs)
    assert np.isnan(areas[4])  # nobody has the class


def test_areas_under_roc_curves_are_resampled_by_group():
    groups = np.repeat(np.arange(40), 10)
    drawn = metrics.resample_auc_rocs(FLAGS, LIKELY, groups)
    counts = next(iter(bootstrap.draw_counts(40)))
    rows = np.repeat(np.arange(400), counts[groups].astype(int))
    assert drawn[0, :3] == pytest.approx(sklearn.roc_auc_score(FLAGS[rows, :3], LIKELY[rows, :3], average=None))
    assert drawn.shape == (bootstrap.RESAMPLES, 5)


def test_a_mean_is_resampled_by_group():
    groups, values = np.repeat(np.arange(40), 10), RANDOM.random((400, 2))
    drawn = bootstrap.mean_of_groups(values, groups)
    for number, counts in enumerate(list(bootstrap.draw_counts(40))[:5]):
        rows = np.repeat(np.arange(400), counts[groups].astype(int))
        assert drawn[number] == pytest.approx(values[rows].mean(0))
