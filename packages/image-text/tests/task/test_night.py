"""A night of scans with reports: from the simulator to a model that is measured, watched and live."""

import pytest

from components.optimization import __main__ as optimization
from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.deployment import Deployment
from nightshift.contracts.drift import DriftReport
from nightshift.contracts.tables import read_table
from nightshift_image_text import neighbors
from tests.components.scans import CONFIG
from tests.components.tales import Night

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("image-text")]

DAY = "2026-03-10"


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    night = Night(tmp_path_factory.mktemp("scans"), DAY, CONFIG)
    night.run()
    return night


def test_the_first_model_goes_live(night: Night) -> None:
    assert Deployment.read(str(night.folder / "deployment.json")).decision == "promoted"


def test_a_package_has_a_graph_of_both_towers_for_each_candidate(night: Night) -> None:
    model = package.load(str(night.folder / "model"))

    assert set(model.candidates) == {"pairs", "frozen_text"}
    assert set(model.signature.graphs) == {"image", "text"}
    assert all(model.candidates[name].validation["recall_at_5"] is not None for name in model.candidates)


def test_the_model_that_is_served_brings_the_indexes_of_its_training_pairs(night: Night) -> None:
    optimization.body(night.context(features="features.json", model="model", optimized="optimized"))
    uri = str(night.folder / "optimized")
    model = package.load(uri)
    galleries = neighbors.load(uri, model)

    assert len(galleries["images"].rows) == model.lineage.train.rows
    assert all(row["id"] and row["report"] for row in galleries["reports"].rows)


def test_a_day_of_scores_has_findings_and_embeddings(night: Night) -> None:
    scores = read_table(str(night.folder / "scores" / "scores.json"))
    rows = storage.read_frame(scores.partitions[-1].uri)

    assert {"score", "predicted", "embedding"} <= set(rows)


def test_drift_watches_embeddings_and_findings(night: Night) -> None:
    names = {signal.name for signal in DriftReport.read(str(night.folder / "drift" / "drift.json")).signals}

    assert {"inputs", "score", "mmd", "domain_classifier"} <= names
