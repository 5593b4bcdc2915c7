"""A language model with more weights than its graph holds: they lie in files beside it, and it scores alike."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from onnx import numpy_helper
from transformers import LlamaForCausalLM

from components.evaluation import __main__ as evaluation
from components.optimization import __main__ as optimization
from components.training import core
from nightshift.contracts import package
from nightshift.contracts.optimization import Optimization
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Verdict
from nightshift.models.graph import CPU, Graph, runtime
from nightshift.models.weights import LargeGraph, WeightFile, divide, identify
from nightshift.runtime.errors import UserError
from nightshift.serving.batching import ServerLimits
from nightshift.serving.triton.repository import PublishRequest, publish
from nightshift.tasks.base.training import TrainingSetup
from nightshift_llm.recipes.llama import Llama, LlamaParameters
from nightshift_llm.task import candidates, documents, onnx_export, training
from nightshift_llm.task.scores import DocumentScorer
from nightshift_llm.task.tokens import load_tokenizer
from nightshift_testkit import packages
from nightshift_testkit.s3 import bucket, environment
from tests.components.tales import CONFIG, Night, task
from tests.nightshift.serving.conftest import serving

LENGTH, IN_GRAPH, SHARD = 16, 4096, 20_000
TOKENIZER = load_tokenizer(task())
DAY = "2024-03-10"


@dataclass(frozen=True)
class Twins:
    """One network as a graph that holds its weights, and as one with files of them."""

    causal: LlamaForCausalLM
    whole: bytes
    large: bytes
    files: list[WeightFile]

    @property
    def rows(self) -> np.ndarray:
        preprocessing = documents.describe_preprocessing(task(length=LENGTH), TOKENIZER)
        texts = TOKENIZER.encode(["a night shift", "a row and a half of one, or so"])
        return documents.cut_rows(texts, preprocessing)[0]


def draw(seed: int) -> Twins:
    fit = LlamaParameters.parse_value({"depth": 2, "width": 32, "heads": 2, "kv_heads": 1})
    recipe = Llama("", TOKENIZER.vocabulary, TOKENIZER.start, LENGTH, fit)
    torch.manual_seed(seed)
    causal = recipe.causal(recipe.model().eval())
    files = divide("llama", onnx_export.read_weights(causal), IN_GRAPH, SHARD)
    shape = causal, LENGTH, TOKENIZER.byte_lengths
    return Twins(causal, onnx_export.export_llama(*shape), onnx_export.export_llama(*shape, files), files)


@pytest.fixture(scope="module")
def twins() -> Twins:
    return draw(0)


def save(folder: Path, twins: Twins) -> ModelPackage:
    graphs = {"llama": twins.large}
    candidate = packages.candidate("llama", weights=[file.name for file in twins.files])
    manifest = packages.manifest(graphs, candidates={"llama": candidate})
    files = candidates.save_weights(twins.causal, twins.files)
    return package.save(str(folder), manifest, graphs, pd.DataFrame(), files)


@pytest.fixture
def saved(twins: Twins, tmp_path: Path) -> Path:
    save(tmp_path / "model", twins)
    return tmp_path / "model"


def read(folder: Path | str) -> bytes:
    return package.read_graph(str(folder), package.load(str(folder)), "llama")


def test_a_graph_holds_so_many_bytes_of_weights_and_not_one_more() -> None:
    weights = {"a": np.ones((4, 8), np.float32), "b": np.ones(8, np.float32)}
    assert divide("net", weights, in_graph=160) == []
    (file,) = divide("net", weights, in_graph=159)
    assert (file.name, [*file.tensors]) == ("net-00001-of-00001.safetensors", ["a", "b"])


def test_a_file_holds_as_many_tensors_as_fit_and_one_that_is_larger_alone() -> None:
    sizes = {"a": 4, "b": 6, "c": 1, "d": 20, "e": 10}
    weights = {name: np.ones(size, np.float32) for name, size in sizes.items()}
    files = divide("net", weights, in_graph=0, shard=40)
    assert [[*file.tensors] for file in files] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert files[3].name == "net-00004-of-00004.safetensors"


def test_a_graph_with_files_scores_bit_for_bit_as_one_that_holds_its_weights(twins: Twins) -> None:
    assert isinstance(twins.large, LargeGraph)
    assert not isinstance(twins.whole, LargeGraph)
    assert len(twins.large) < len(twins.whole) / 2
    assert len(twins.files) > 2
    whole, large = Graph(twins.whole), Graph(twins.large)
    for output in ("score", "embedding", "find_greedy"):
        np.testing.assert_array_equal(getattr(large, output)(twins.rows), getattr(whole, output)(twins.rows))


def test_what_is_read_of_a_package_scores_alike_and_is_the_graph_that_was_saved(twins: Twins, saved: Path) -> None:
    graph, expected = read(saved), Graph(twins.whole).score(twins.rows)
    np.testing.assert_array_equal(Graph(graph).score(twins.rows), expected)
    assert package.load(str(saved)).identify_graph("llama") == identify(graph) == identify(twins.large)
    session = runtime().InferenceSession(str(saved / "llama.onnx"), providers=[CPU])  # as other servers load it
    np.testing.assert_array_equal(session.run(["score"], {"inputs": twins.rows})[0], expected)


def test_engines_load_the_same_files(twins: Twins, saved: Path) -> None:
    loaded = LlamaForCausalLM.from_pretrained(saved).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in twins.causal.state_dict().items())
    kinds = [file.format for file in package.load(str(saved)).files if file.format == "safetensors"]
    assert len(kinds) == len(twins.files), "no weight is packaged twice"


def test_equal_networks_give_equal_packages_and_others_are_other_models(twins: Twins, tmp_path: Path) -> None:
    first, again, other = (save(tmp_path / name, draw(seed)) for name, seed in (("1", 0), ("2", 0), ("3", 1)))
    assert first.files == again.files
    assert first.graph("llama") == other.graph("llama"), "what points to the weights is the same"
    assert first.sha256 == again.sha256 != other.sha256


def test_a_copy_holds_the_files_of_the_weights(twins: Twins, saved: Path, tmp_path: Path) -> None:
    package.copy(str(saved), str(tmp_path / "copy"))
    np.testing.assert_array_equal(
        Graph(read(tmp_path / "copy")).score(twins.rows), Graph(twins.whole).score(twins.rows)
    )


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("s3fs", reason="the core's extra aws is missing")
    with bucket() as url:
        for name, value in environment(url).items():
            monkeypatch.setenv(name, value)
        yield "s3://lake/model"


@pytest.mark.slow
def test_a_package_in_an_object_store_scores_alike(twins: Twins, saved: Path, store: str) -> None:
    package.copy(str(saved), store)
    np.testing.assert_array_equal(Graph(read(store)).score(twins.rows), Graph(twins.whole).score(twins.rows))


def test_a_missing_file_of_weights_is_refused_by_its_name(saved: Path, twins: Twins) -> None:
    (saved / twins.files[1].name).unlink()
    with pytest.raises(UserError, match=rf"{twins.files[1].name} does not exist"):
        read(saved)


@pytest.mark.parametrize("content", [b"other weights", b""], ids=["other", "empty"])
def test_a_file_of_other_weights_is_refused_by_its_name(saved: Path, twins: Twins, content: bytes) -> None:
    (saved / twins.files[1].name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{twins.files[1].name} is not the file that model\.json names"):
        read(saved)


@pytest.mark.parametrize("location", ["../secret.bin", "secret.bin", "/secret.bin"])
def test_weights_that_no_file_of_the_package_holds_are_never_read(
    twins: Twins, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load_from_string(twins.whole)
    tensor = max(model.graph.initializer, key=lambda constant: len(constant.raw_data))
    (tmp_path / "folder").mkdir()
    for file in (tmp_path / "secret.bin", tmp_path / "folder/secret.bin"):
        file.write_bytes(numpy_helper.to_array(tensor).tobytes())
    monkeypatch.chdir(tmp_path / "folder")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=str(tmp_path) + location if location[0] == "/" else location)
    content = model.SerializeToString()
    for graph in (content, LargeGraph(content, [])):
        with pytest.raises(UserError, match="lie outside the package's files"):
            Graph(graph)


def test_triton_finds_the_weights_beside_the_graph(twins: Twins, saved: Path, tmp_path: Path) -> None:
    repository, request = tmp_path / "repository", PublishRequest("tales", 1)
    assert publish(repository, str(saved), request).is_new
    assert not publish(repository, str(saved), request).is_new
    session = runtime().InferenceSession(str(repository / "tales/1/model.onnx"), providers=[CPU])
    expected = Graph(twins.whole).score(twins.rows)
    np.testing.assert_array_equal(session.run(["score"], {"inputs": twins.rows})[0], expected)

    save(tmp_path / "other", draw(1))
    with pytest.raises(UserError, match=r"version 1 .* is another model"):
        publish(repository, str(tmp_path / "other"), request)


@dataclass(frozen=True)
class Trained:
    """A night whose model was trained twice: with its weights in its graph, and in files of their own."""

    night: Night
    models: dict[str, ModelPackage]

    def uri(self, name: str) -> str:
        return str(self.night.folder / name)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    night = Night(tmp_path_factory.mktemp("tales"), DAY, CONFIG)
    night.run("ingestion", "features")
    context = night.context(features="features.json")
    setup: TrainingSetup[Any] = TrainingSetup(context.config, context.plan, context.features, context.device)
    models = {}
    for name, in_graph in (("whole", 1 << 30), ("model", IN_GRAPH)):
        rows = training.TrainingTask().read_rows(setup)
        result = core.train(setup, replace(rows, setup=replace(rows.setup, in_graph=in_graph)), "code")
        uri = str(night.folder / name)
        models[name] = package.save(uri, result.package, result.graphs, result.reference, result.files)
    return Trained(night, models)


@pytest.mark.slow
def test_a_night_with_such_a_model_scores_as_one_with_a_single_file(trained: Trained) -> None:
    assert not trained.models["whole"].candidates["llama"].weights
    assert trained.models["model"].candidates["llama"].weights == ["llama-00001-of-00001.safetensors"]
    texts = TOKENIZER.encode(["a night shift", "de fi go" * 30])
    whole, large = (
        DocumentScorer.open(trained.uri(name), model).score(texts) for name, model in trained.models.items()
    )
    np.testing.assert_array_equal(large.bits, whole.bits)
    first, second = (package.read_reference(trained.uri(name)) for name in trained.models)
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.slow
def test_such_a_model_is_evaluated_and_its_graph_stays_as_it_was_trained(trained: Trained) -> None:
    night, uris = trained.night, {"features": "features.json", "model": "model"}
    evaluation.evaluate(night.context(**uris, evaluation="evaluation"), lambda _: None)
    verdict = Verdict.read(trained.uri("evaluation/verdict.json"))
    assert verdict.subject == trained.models["model"].sha256

    quantized = Night(night.workspace, DAY, night.config | {"optimization": {"form": "int8 dynamic"}})
    outcome = optimization.body(quantized.context(**uris, optimized="optimized"))
    assert outcome == {"form": "original"}
    reason = "The graph's weights are in separate files, which cannot be converted."
    assert reason in Verdict.read(trained.uri("optimized/verdict.json")).reasons[0]
    optimized = package.load(trained.uri("optimized"))
    assert optimized.sha256 == trained.models["model"].sha256
    size = Optimization.read(trained.uri("optimized/optimization.json")).attempts[0].size
    assert size
    assert size > 4 * optimized.graph("llama").size, "the weights count"


@pytest.mark.slow
def test_a_server_answers_with_such_a_model_as_it_is_scored(trained: Trained, tmp_path: Path) -> None:
    scorer = DocumentScorer.open(trained.uri("model"), trained.models["model"])
    text = "a night shift"
    with serving(trained.uri("model"), tmp_path / "current.json", ServerLimits(rows=8)) as server:
        answer = httpx.post(f"{server.url}/score", content=text, headers={"content-type": "text/plain"}).json()
    assert np.float32(answer["score"]) == np.float32(scorer.score(TOKENIZER.encode([text])).firsts[0])
