"""Images from a trained model on: scored, watched, optimized, profiled and registered."""

import gzip
import json
import subprocess
import sys
from argparse import Namespace
from datetime import date

import numpy as np
import pandas as pd
import pytest

from components.deployment import __main__ as deployment
from components.drift import core
from components.evaluation.__main__ import evaluate
from components.optimization import __main__ as optimizing
from components.optimization import compare as comparing
from components.optimization import forms, subjects
from components.profiling import __main__ as profiling
from components.scoring import __main__ as scoring
from components.training import __main__ as training
from nightshift import registry, storage, tasks
from nightshift.contracts import drift as contract
from nightshift.contracts import optimization, package, profile, tables
from nightshift.contracts import preprocessing as parts
from nightshift.contracts.deployment import Deployment
from nightshift.contracts.section import Pictures, read_section
from nightshift.contracts.verdict import Verdict
from nightshift.data import splits
from nightshift.items import shards
from nightshift.items.scorer import ClassScorer
from nightshift.models.tensors import row_count
from nightshift.runtime.context import StepContext
from nightshift.stats import shift
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.classification import descriptors, drift_reference
from nightshift.tasks.classification import drift as signals
from nightshift.tasks.classification.drift_reference import ItemModel
from nightshift.tasks.items import drift as embedding_drift
from tests.components import pictures
from tests.components.states import state

pytestmark = pytest.mark.slow

DAY = date.fromisoformat(pictures.DATE)
SCORE, INPUT = (
    contract.ColumnDrift(
        name=name,
        psi=0,
        psi_limit=0.1,
        wasserstein=0,
        wasserstein_limit=0.08,
        drifted=False,
        reference_mean=0,
        current_mean=0,
    )
    for name in (contract.SCORE, "brightness")
)
CONFIG = pictures.config(drift={"window_days": 2, "min_rows": 20, "accuracy": 0.9})


class Chain:
    """The steps in their order, in a folder."""

    def __init__(self, folder) -> None:
        self.folder = folder
        pictures.ingest(folder, CONFIG)
        pictures.feature(folder, CONFIG)
        pictures.train(folder, CONFIG)

    def context(self, config=CONFIG, target="register-only", **names) -> StepContext:
        flags = {"config": json.dumps(config), "date": pictures.DATE, "state": state(self.folder, target=target)}
        uris = {name: str(self.folder / file) for name, file in names.items() if file}
        return StepContext(Namespace(**flags, **({"device": "cpu"} if "device" in names else {}), **uris))


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    complete = Chain(tmp_path_factory.mktemp("chain"))
    scoring.body(complete.context(features="features.json", scores="scores", model="model"))
    return complete


@pytest.fixture(scope="module")
def watched(chain):
    """The folder that the drift step has written."""
    flags = vars(chain.context(features="features.json", scores="scores", drift="drift").args)
    words = [word for name, value in flags.items() if name != "state" for word in (f"--{name}", value)]
    subprocess.run([sys.executable, "-m", "components.drift", *words], check=True)
    return chain.folder / "drift"


def test_each_image_is_taken_for_the_class_with_the_highest_score(chain):
    table = tables.read_table(str(chain.folder / "scores" / "scores.json"))
    part = tables.read_table(str(chain.folder / "features.json")).partition(DAY)
    frame, pixels = storage.read_frame(table.partition(DAY).uri), shards.map_shard(part)
    model = package.load(str(chain.folder / "model"))
    scores = ClassScorer(str(chain.folder / "model"), model).score(pixels)
    assert frame["predicted"].tolist() == [model.classes.classes[number] for number in scores.argmax(1)]
    assert np.array_equal(frame["score"], scores.max(1))
    assert np.stack(frame["embedding"]).shape == (24, 8)
    assert frame["brightness"].to_numpy() == pytest.approx(pixels.mean((1, 2, 3)))
    assert table.details["promised"]["metric"] == "accuracy"


def test_a_day_without_images_is_scored_into_the_same_columns(chain):
    model = package.load(str(chain.folder / "model"))
    scorer = ClassScorer(str(chain.folder / "model"), model)
    assert scorer.score(np.empty((0, 16, 16, 1), np.uint8)).shape == (0, 4)
    some, none = (
        drift_reference.describe(np.zeros((count, 16, 16, 1), np.uint8), ItemModel(scorer.graph, model.classes))
        for count in (1, 0)
    )
    assert list(none) == list(some)
    assert none["predicted"].dtype == some["predicted"].dtype


def test_a_stable_day_passes_and_the_labels_say_how_good_the_model_is(chain, watched):
    drift = contract.DriftReport.read(str(watched / contract.FILE))
    model = package.load(str(chain.folder / "model"))
    assert [column.name for column in drift.columns] == signals.columns(model)
    assert drift.reference == model.lineage.reference
    section = read_section(str(watched))
    assert "the model's reference, 48 rows of 2024-03-04 to 2024-03-05" in str(section)
    assert [len(block.pictures) for block in section.blocks if isinstance(block, Pictures)] == [6, 6]
    assert {"novelty", "domain_classifier", "mmd"} <= {signal.name for signal in drift.signals}
    assert Verdict.read(str(watched / "verdict.json")).is_pass
    performance = next(signal for signal in drift.signals if signal.name == "performance")
    rows = storage.read_frame(tables.read_table(str(chain.folder / "scores" / "scores.json")).partition(DAY).uri)
    assert performance.reason.startswith("Accuracy 0.")
    assert "(48 rows)" in performance.reason
    assert len(rows) == 24


def test_brighter_images_are_seen_before_any_label_arrives(chain, tmp_path):
    bright = pictures.config(label_delay_days=1, simulator={"drift_from": "2024-03-09", "brightness_factor": 2.5})
    pictures.ingest(tmp_path, bright)
    pictures.feature(tmp_path, bright)
    flags = vars(chain.context(bright, model="model").args)
    flags |= {name: str(tmp_path / file) for name, file in {"features": "features.json", "scores": "scores"}.items()}
    scoring.body(StepContext(Namespace(**flags)))
    rows = tables.read_table(str(tmp_path / "scores" / "scores.json")).read([DAY])
    sample, model = (read(str(chain.folder / "model")) for read in (package.read_reference, package.load))
    limits = embedding_drift.beyond_chance(pictures.parsed(drift=CONFIG["drift"]).drift, sample, len(rows))
    columns = shift.compare(sample[signals.columns(model)], [rows], signals.numeric(model), limits)
    assert "brightness" in {column.name for column in columns if column.drifted}
    before, now = (embedding_drift.stack(frame[package.EMBEDDING]) for frame in (sample, rows))
    raised = {signal.name: signal.raised for signal in embedding_drift.compare_views(before, [now], limits)}
    assert list(raised) == ["novelty", "domain_classifier", "mmd"]
    assert next(core.shifts(columns, limits)).raised
    assert raised["mmd"]


def test_the_same_kind_of_rows_raises_nothing_and_a_new_class_shows_on_its_first_day():
    random, limits = np.random.default_rng(0), pictures.parsed().drift
    reference, *days = (random.normal(size=(rows, 8)) for rows in (1000, 200, 200, 200))
    days[2][:20] += [6, -6, 0, 0, 0, 0, 0, 0]  # a tenth of the newest day
    for newest, raised in (([], []), (days[2:], ["novelty"])):
        by_name = {
            signal.name: signal for signal in embedding_drift.compare_views(reference, [*days[:2], *newest], limits)
        }
        assert [name for name, signal in by_name.items() if signal.raised] == raised
    assert by_name["novelty"].reason.endswith("of the newest 200 rows are less like the reference than 98% of its own "
        f"(effect {by_name['novelty'].value:.3f}, limit {by_name['novelty'].limit:.3f}).")  # fmt: skip


def test_another_place_of_all_embeddings_is_told_by_a_classifier_and_as_a_discrepancy():
    random, limits = np.random.default_rng(0), pictures.parsed().drift
    shifts = list(
        embedding_drift.compare_views(random.normal(size=(1000, 8)), [random.normal(0.5, size=(2000, 8))], limits)
    )
    assert [(signal.name, signal.raised) for signal in shifts[1:]] == [("domain_classifier", True), ("mmd", True)]
    # d' is 0.5 times the root of 8, and the area under the curve the normal distribution at that over the root of 2
    assert shifts[1].value == pytest.approx(0.841 - 0.5, abs=0.03)
    assert shifts[1].limit == limits.domain_classifier


def test_a_few_rows_are_held_to_chance_and_many_to_the_config():
    limits = pictures.parsed().drift
    few, many = (pd.DataFrame({"predicted": ["a"] * rows}) for rows in (50, 1_000_000))
    held = embedding_drift.beyond_chance(limits, few, 50)
    assert (held.psi, held.wasserstein) == (pytest.approx(1.42, abs=0.01), pytest.approx(0.778, abs=0.001))
    assert embedding_drift.beyond_chance(limits, many, 1_000_000) == limits
    assert not list(embedding_drift.compare_views(np.zeros((19, 2)), [np.zeros((100, 2))], limits))


def test_a_promise_is_held_to_where_enough_labels_are_there():
    promised = contract.Promise(metric="accuracy", value=0.9, measured="once")
    limits = pictures.parsed(drift={"accuracy": 0.05, "min_rows": 100}).drift
    few = signals.performance(signals.DueItems(99, 0), promised, limits)
    assert (few.value, few.raised) == (None, False)
    for right, raised in ((86, False), (84, True)):
        performance = signals.performance(signals.DueItems(100, right), promised, limits)
        assert performance.raised == raised
        assert performance.value == pytest.approx(0.9 - right / 100)


def test_what_can_be_said_of_an_image():
    images = parts.ImagePreprocessing(classes=["a", "b"], side=4, channels=1, **pictures.LIMITS)
    flat, step = np.full((1, 4, 4, 1), 100, np.uint8), np.zeros((1, 4, 4, 1), np.uint8)
    step[:, :, 2:] = 90
    assert {name: float(value[0]) for name, value in descriptors.describe(images, flat).items()} == {
        "brightness": 100, "contrast": 0, "sharpness": 0,
    }  # fmt: skip
    described = descriptors.describe(images, step)
    assert (described["brightness"][0], described["contrast"][0], described["sharpness"][0]) == (45, 45, 30)


def test_what_can_be_said_of_a_text():
    texts = parts.TextPreprocessing(
        classes=["a", "b"], length=6, tokenizer=None, tokenizer_sha256="", vocabulary=9, pad=0
    )
    described = descriptors.describe(texts, np.array([[1, 5, 5, 0, 0, 0], [1, 2, 3, 4, 5, 6]], np.int32))
    assert {name: values.tolist() for name, values in described.items()} == {
        "tokens": [3, 6], "variety": [pytest.approx(2 / 3), 1],
    }  # fmt: skip


def test_a_class_that_comes_after_training_is_said_by_training_evaluation_and_drift(tmp_path):
    network = {"kind": "resnet", "parameters": {"epochs": 1, "batch_size": 24, "width": 4, "stages": "1,1"}}
    task = {"classes": [*pictures.CONFIG["task"]["classes"], "star"], "candidates": {"resnet": network}}
    simulator = {"drift_from": "2024-03-09", "new_class": 0.3}
    config = pictures.config(task=task, simulator=simulator, drift={"window_days": 2, "min_rows": 20})
    pictures.ingest(tmp_path, config)
    pictures.feature(tmp_path, config)
    partial = Chain.__new__(Chain)
    partial.folder = tmp_path
    model, _ = pictures.train(tmp_path, config)
    assert model.lineage.unlearned == ["star"]
    assert "No training row is of 'star'" in str(read_section(str(tmp_path / "model")))
    evaluate(partial.context(config, features="features.json", model="model", evaluation="evaluation"), lambda _: None)
    table = tables.read_table(str(tmp_path / "features.json"))
    days = list(pictures.plan().test.test)
    stars, rows = int((table.read(days)["label"] == "star").sum()), len(table.read(days))
    assert stars
    verdict = Verdict.read(str(tmp_path / "evaluation" / "verdict.json"))
    assert f"{stars} of {rows} test rows are of classes that no training row has" in verdict.reasons[-1]
    assert "no training rows" in str(read_section(str(tmp_path / "evaluation")))
    assert "No training row is of star" in (tmp_path / "evaluation" / "model_card.md").read_text()
    scoring.body(partial.context(config, features="features.json", model="model", scores="scores"))
    scores = tables.read_table(str(tmp_path / "scores" / "scores.json"))
    uri = str(tmp_path / "model")
    inputs = DriftInputs(pictures.parsed(**config), DAY, table, scores, uri, model, package.read_reference(uri))
    comparison = signals.DriftTask().comparison(inputs)
    by_name = {signal.name: signal for signal in core.signals([INPUT, SCORE], inputs, comparison)}
    assert list(by_name)[-1] == "performance"
    assert by_name["classes"].raised
    reason = f"{stars} of {rows} labeled rows are of classes that no training row of the model has: 'star' ({stars})."
    assert by_name["classes"].reason == reason


def test_forms_of_the_graph_are_measured_by_accuracy(chain):
    comparing.body(chain.context(features="features.json", model="model", result="compared"))
    compared = optimization.Optimization.read(str(chain.folder / "compared" / optimization.FILE))
    assert (compared.metric, compared.rows) == ("accuracy", 48)
    assert [latency.rows for latency in compared.attempts[0].latencies] == [1, 32]
    assert {attempt.name for attempt in compared.attempts if attempt.latencies} >= {"original", "graph", "int8 static"}


def test_the_validation_rows_of_the_choice_and_of_the_forms_are_the_same_without_what_training_has_seen(chain):
    table = tables.read_table(str(chain.folder / "features.json"))
    fold = pictures.plan().validation
    part = table.partition(fold.test.last)
    rows = storage.read_frame(part.uri)
    rows.loc[0, "content"] = table.read([fold.train.first])["content"][0]
    twice = tables.write_partition(str(chain.folder / "twice.parquet"), fold.test.last, rows, {})
    storage.write_bytes(shards.shard_uri(twice.uri), storage.read_bytes(shards.shard_uri(part.uri)))
    parts = [twice if day is part else day for day in table.partitions]
    tables.write_table(str(chain.folder / "twice.json"), tables.Table("features", parts, table.details))
    context = chain.context(features="twice.json", model="chosen", device=None)
    training.body(context)
    subject = subjects.read(context)
    assert row_count(subject.rows.inputs) == package.load(str(chain.folder / "chosen")).lineage.validation.rows == 47


def test_a_form_that_takes_the_original_s_place_sees_the_reference_itself(chain):
    uri, features = str(chain.folder / "model"), tables.read_table(str(chain.folder / "features.json"))
    context = chain.context(features="features.json", model="model")
    subject, before = subjects.read(context), package.read_reference(uri).set_index("event_id")
    graph = forms.make_form("int8 static", subject.original.content, subject.sample).graph
    after = tasks.find("image-classification").optimization.reference(features, uri, context.model, graph)
    days = splits.Days(context.model.lineage.reference.first, context.model.lineage.reference.last)
    items = shards.ItemTable.read(features, days)
    assert list(before.index) == list(after["event_id"]) == items.rows["event_id"].tolist()
    assert np.array_equal(np.stack(after["embedding"]), graph.embedding(items.inputs(items.rows)))
    assert not np.array_equal(np.stack(after["embedding"]), np.stack(before["embedding"]))


def test_a_package_in_another_form_has_one_reference(chain):
    config = CONFIG | {"optimization": {"form": "graph"}}
    optimizing.body(chain.context(config, features="features.json", model="model", optimized="graph"))
    written = package.load(str(chain.folder / "graph"))
    assert written.lineage.optimized.form == "graph"
    assert [file.name for file in written.files].count(package.REFERENCE) == 1


def test_the_training_is_measured_and_gives_the_same_graph(chain):
    metrics = profiling.body(chain.context(features="features.json", model="model", profile="profile", device=None))
    written = profile.Profile.read(str(chain.folder / "profile" / profile.FILE))
    assert written.reproduced
    assert written.rows == 72
    assert metrics["rows_per_second"] == written.rows_per_second
    assert written.top_operations
    assert b"conv" in gzip.decompress((chain.folder / "profile" / profile.TRACE).read_bytes())


def test_a_model_is_registered_and_promoted(chain, watched):
    evaluate(chain.context(features="features.json", model="model", evaluation="evaluation"), lambda _: None)
    names = {"features": "features.json", "model": "model", "evaluation": "evaluation", "drift": watched.name}
    uri = str(chain.folder / "deployment.json")
    flags = vars(chain.context(**names).args) | {"run": "a", "deployment": uri, "executor_input": {}}
    deployment.body(StepContext(Namespace(**flags)))
    record = Deployment.read(uri)
    assert (record.version, record.decision, record.endpoint) == (1, "promoted", None)
    version = registry.find(str(chain.folder / "registry"), "shapes", 1)
    assert float(version.tags["accuracy"]) >= 0
    assert isinstance(package.read_reference(version.uri), pd.DataFrame)
