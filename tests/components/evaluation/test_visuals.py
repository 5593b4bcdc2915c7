"""What Kubeflow's page draws, held against kfp's own artifact types."""

import json

import numpy as np
import pytest
from google.protobuf import json_format
from kfp import dsl
from kfp.pipeline_spec import pipeline_spec_pb2
from sklearn.metrics import auc, roc_auc_score

from nightshift.tasks.visuals import CATEGORIES, POINTS, classification

LABELS = np.array([0, 0, 1, 1, 0, 1], dtype=np.int8)
SCORES = np.array([0.1, 0.4, 0.35, 0.8, 0.05, 0.9], dtype=np.float32)


def test_the_metadata_is_what_kfps_own_class_would_log() -> None:
    metadata = classification(LABELS, SCORES, 0.4)

    own = dsl.ClassificationMetrics()
    points = metadata["confidenceMetrics"]
    names = ("falsePositiveRate", "recall", "confidenceThreshold")
    own.log_roc_curve(*([point[name] for point in points] for name in names))
    # one of three negatives is flagged, one of three positives is not
    own.log_confusion_matrix(list(CATEGORIES), [[2, 1], [1, 2]])
    assert metadata == own.metadata


def test_it_is_an_executor_output_without_infinity() -> None:
    artifact = {"name": "classification", "metadata": classification(LABELS, SCORES, 0.4)}
    text = json.dumps({"artifacts": {"classification": {"artifacts": [artifact]}}}, allow_nan=False)

    json_format.Parse(text, pipeline_spec_pb2.ExecutorOutput())


def test_the_curve_encloses_the_area_and_has_few_points_however_many_rows_there_are() -> None:
    drawn = np.random.default_rng(0)
    labels = drawn.integers(0, 2, 20_000).astype(np.int8)
    scores = np.clip(drawn.normal(0.4 + 0.1 * labels, 0.1), 0, 1)

    points = classification(labels, scores, 0.5)["confidenceMetrics"]

    wrong, recall = (np.array([point[name] for point in points]) for name in ("falsePositiveRate", "recall"))
    assert len(points) == POINTS
    assert (wrong[0], recall[0], wrong[-1], recall[-1]) == (0, 0, 1, 1)
    assert auc(wrong, recall) == pytest.approx(roc_auc_score(labels, scores), abs=1e-3)


@pytest.mark.parametrize(("label", "matrix"), [(0, [[1, 2], [0, 0]]), (1, [[0, 0], [1, 2]])])
def test_one_class_has_a_matrix_and_no_curve(label: int, matrix: list[list[int]]) -> None:
    metadata = classification(np.full(3, label, dtype=np.int8), np.array([0.1, 0.6, 0.7]), 0.5)

    assert [entry["row"] for entry in metadata["confusionMatrix"]["rows"]] == matrix
    assert "confidenceMetrics" not in metadata
