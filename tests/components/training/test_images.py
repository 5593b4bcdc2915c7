"""Networks of images: trained on shards, written as ONNX, the same each time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from transformers import ResNetConfig, ResNetForImageClassification

from nightshift.contracts import package, tables
from nightshift.contracts import preprocessing as parts
from nightshift.data import splits
from nightshift.items import shards
from nightshift.items.shards import ItemTable, labels
from nightshift.models.graph import Graph
from nightshift.models.recipes.resnet import ResNet, ResNetParameters
from nightshift.runtime.errors import UserError
from nightshift.tasks import onnx_export
from nightshift.tasks.classification import class_networks
from nightshift.tasks.classification.training import unlearned_classes
from nightshift.tasks.images import candidates as images
from nightshift.tasks.items import networks, references
from tests.components import pictures

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    raw = tmp_path_factory.mktemp("shapes")
    pictures.prepare(raw)
    return raw


@pytest.fixture(scope="module")
def items(folder):
    plan = pictures.plan()
    table = tables.read_table(str(folder / "features.json"))
    return ItemTable.read(table, splits.Days(plan.features.first, plan.features.last))


@pytest.fixture(scope="module")
def trained(folder):
    """The package, and what the step reports."""
    return pictures.train(folder, pictures.CONFIG)


@pytest.mark.slow
def test_a_model_is_trained_written_and_trained_again_to_the_same_bits(folder, trained):
    model, stats = trained
    limits = {"min_side": 8, "max_pixels": 50_000_000}
    assert model.classes == parts.ImagePreprocessing(
        side=16, channels=1, classes=pictures.CONFIG["task"]["classes"], **limits
    )
    assert model.signature.inputs[0].shape == [-1, 16, 16, 1]
    assert model.signature.outputs[0].shape == [-1, 4]
    assert (model.lineage.train.rows, model.lineage.validation.rows) == (72, 48)
    assert stats == {name: model.candidates["resnet"].validation[name] for name in ("accuracy", "macro_f1", "log_loss")}
    assert pictures.train(folder, pictures.CONFIG, "again")[0].sha256 == model.sha256
    assert pictures.train(folder, pictures.config(task={"seed": 1}), "other")[0].sha256 != model.sha256


@pytest.mark.slow
def test_drift_is_measured_against_rows_that_the_network_had_not_seen(folder, items, trained):
    uri, (model, _) = str(folder / "model"), trained
    reference = package.read_reference(uri)
    window = model.lineage.reference
    assert (str(window.first), str(window.last), window.rows) == ("2024-03-04", "2024-03-05", 48)
    rows = items.rows[items.rows["event_id"].isin(reference["event_id"])]
    assert splits.rows_of(rows, splits.Days(window.first, window.last))["event_id"].tolist() == list(
        reference["event_id"]
    )
    graph, pixels = Graph(package.read_graph(uri, model, "resnet")), items.inputs(rows)
    assert np.array_equal(reference["score"], graph.score(pixels).max(1))
    assert np.array_equal(np.stack(reference["embedding"]), graph.embedding(pixels))


def test_rows_of_one_class_train_no_model(items):
    with pytest.raises(UserError, match=r"all 3 rows are of class 'cross', and a model needs two or more"):
        unlearned_classes(items.rows.iloc[:3].assign(label="cross"), ["cross", "star"], pictures.plan().test.train)


@pytest.mark.slow
def test_rows_that_share_their_content_with_the_training_days_are_no_reference(items):
    plan = pictures.plan()
    seen = items.training_rows(plan.test)
    copies = items.rows.assign(content="the same")
    with pytest.raises(UserError, match="no rows are left for drift to compare with"):
        references.draw_holdout(copies, plan, copies, 0)
    kept = references.draw_holdout(items.rows, plan, seen, 0)
    assert set(kept["event_time"].dt.day) == {4, 5}


@pytest.mark.parametrize("parameters", [{"stages": "1,2"}, {"stages": "1,1", "bottleneck": True, "stem": "large"}])
def test_the_graph_gives_the_network_s_probabilities(parameters):
    torch.manual_seed(0)
    recipe = ResNet("parameters", 16, 3, 5, ResNetParameters(width=4, **parameters))
    model = recipe.model()
    pixels = torch.randint(0, 256, (40, 16, 16, 3), dtype=torch.uint8)
    with torch.no_grad():  # so that its statistics are none of those it begins with
        model(pixels)
    model.eval()
    graph = onnx_export.images(model, recipe)
    assert np.abs(Graph(graph).score(pixels.numpy()) - class_networks.probabilities(model, pixels.numpy())).max() < 1e-5
    with torch.no_grad():
        taken = model[:-1](pixels).mean((2, 3)).numpy()
    assert np.abs(Graph(graph).embedding(pixels.numpy()) - taken).max() < 1e-4
    assert "BatchNormalization" not in {node.op_type for node in onnx.load_from_string(graph).graph.node}
    assert onnx_export.images(model, recipe) == graph


def published(folder: Path) -> str:
    """Write a small network's weights as everybody shares them, and return where."""
    shape = ResNetConfig(num_channels=1, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    ResNetForImageClassification(shape).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text('{"image_mean": [0.5], "image_std": [0.25]}')
    return str(folder)


@pytest.mark.slow
def test_embeddings_of_published_weights_that_stay_are_told_apart_by_logistic_regression(items, tmp_path):
    candidate = {"kind": "resnet", "parameters": {"pretrained": published(tmp_path), "frozen": True, "threads": 1}}
    task = pictures.parsed(task={"candidates": {"frozen": candidate}}).task

    fitted = images.fit(networks.FitSetup(task, "cpu"), "frozen", items, items.rows)

    pixels, graph = items.inputs(items.rows), Graph(fitted.graph)
    theirs = LogisticRegression(max_iter=1000).fit(graph.embedding(pixels), labels(items.rows, task.classes))
    assert np.abs(graph.score(pixels) - theirs.predict_proba(graph.embedding(pixels))).max() < 1e-3
    assert np.abs(graph.score(pixels) - fitted.predict(pixels)).max() < 1e-5
    assert not images.is_network(task, "frozen")


def test_published_weights_are_where_a_training_begins(items, tmp_path):
    weights = published(tmp_path)
    tuned = {"pretrained": weights, "epochs": 1, "learning_rate": 1e-9, "threads": 1, "ema_decay": 0.9}
    candidates = {"tuned": {"kind": "resnet", "parameters": tuned}}
    task = pictures.parsed(task={"candidates": candidates}).task
    *begun, _ = images.recipe(task, "tuned").model().eval()
    pixels = items.inputs(items.rows)

    fitted = images.fit(networks.FitSetup(task, "cpu"), "tuned", items, items.rows)

    taken = networks.run_batches(lambda batch: torch.nn.Sequential(*begun)(batch).mean((2, 3)), pixels, CPU)
    embedded = Graph(fitted.graph).embedding(pixels)
    assert np.corrcoef(embedded.ravel(), taken.ravel())[0, 1] > 0.8  # statistics of batches change all the same


def test_the_network_that_the_graph_is_compared_with_computes_in_float32_on_a_gpu_too():
    def precisions() -> list[str]:
        return [torch.backends.cudnn.conv.fp32_precision, torch.backends.cuda.matmul.fp32_precision]

    class PrecisionProbe(torch.nn.Linear):
        def forward(self, pixels):
            seen.append(precisions())
            return super().forward(pixels.float())

    seen, before = [], precisions()
    class_networks.probabilities(torch.nn.Sequential(PrecisionProbe(3, 2)), np.zeros((4, 3), np.uint8))
    assert seen == [["ieee", "ieee"]]
    assert precisions() == before != seen[0]


def test_images_that_stay_on_disk_train_the_same_network(items):
    setup = networks.FitSetup(pictures.parsed().task, "cpu")
    rows = items.rows.head(60)
    whole = images.fit(setup, "resnet", items, rows).graph
    assert images.fit(replace(setup, resident=0), "resnet", items, rows).graph == whole


def test_classes_are_balanced_by_their_training_rows(items):
    rows = items.rows.head(40)
    counts = shards.count_classes(rows, pictures.parsed().task.classes)
    weights = ",".join(str(len(rows) / (len(counts) * count)) for count in counts)

    def fit(given):
        network = {"kind": "resnet", "parameters": {"width": 2, "epochs": 1, "class_weights": given}}
        task = pictures.parsed(task={"candidates": {"weighted": network}}).task
        return images.fit(networks.FitSetup(task, "cpu"), "weighted", items, rows).graph

    assert len(set(counts)) > 1
    assert fit("balanced") == fit(weights) != fit("")


@pytest.mark.slow
def test_a_wrong_parameter_is_named_where_it_stands(folder):
    network = {"kind": "resnet", "parameters": {"depth": 50}}
    with pytest.raises(UserError, match=r"task.candidates.deep.parameters.depth: unknown"):
        pictures.train(folder, pictures.config(task={"candidates": {"deep": network}}), "wrong")
