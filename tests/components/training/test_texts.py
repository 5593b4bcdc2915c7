"""Models of texts: weighted words, embeddings as they are, a network that is fitted; each as ONNX."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from torch.utils.flop_counter import FlopCounterMode

from nightshift import storage
from nightshift.contracts import package, tables
from nightshift.contracts import preprocessing as parts
from nightshift.items import shards, tokens
from nightshift.items.shards import ItemTable, Shards
from nightshift.models.graph import Graph
from nightshift.models.neural import devices, trainer
from nightshift.models.neural.data import KEEP
from nightshift.models.neural.replica import Replica
from nightshift.models.recipes.bert import Bert, BertParameters
from nightshift.runtime.errors import UserError
from nightshift.tasks.classification import class_networks
from nightshift.tasks.items import networks
from nightshift.tasks.texts import candidates as texts
from nightshift.tasks.texts import onnx_export as texts_export
from nightshift_testkit import hub
from tests.components import pictures, topics

TASK = topics.task()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    raw = tmp_path_factory.mktemp("topics")
    topics.prepare(raw)
    return raw


def items(count: int = 48) -> ItemTable:
    """Texts of one class each: word `n` says so, the others say nothing."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, count)
    numbers = random.integers(10, 512, (count, 16)).astype(np.int32)
    numbers[:, 0], numbers[:, 1], numbers[: count // 2, 9:] = tokens.START, labels + 2, tokens.PAD
    rows = pd.DataFrame({"label": [TASK.classes[number] for number in labels], "content": map(str, range(count))})
    return ItemTable(rows, Shards([numbers]))


def recipe(**parameters) -> Bert:
    sizes = {"width": 16, "heads": 2, "layers": 2, "threads": 1}
    return Bert("task.candidates.bert.parameters", 512, tokens.PAD, 16, 4, BertParameters(**sizes | parameters))


def saved(folder, **changes) -> str:
    """Write a network's weights as everybody shares them, and return where."""
    network = recipe()
    shape = {**network.shape.to_dict(), **changes}
    (folder / "config.json").write_text(json.dumps(shape))
    torch.manual_seed(7)
    encoder, _ = network.model()
    save_file(encoder.bert.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


@pytest.mark.slow
def test_a_day_of_texts_is_a_shard_of_the_numbers_of_their_tokens(folder):
    events, features = (tables.read_table(str(folder / name)) for name in ("events.json", "features.json"))
    assert [part.date for part in features.partitions] == [part.date for part in events.partitions]
    day = features.partitions[-1]
    numbers, written = shards.map_shard(day), storage.read_frame(events.partitions[-1].uri)["text"]
    assert (numbers.dtype, numbers.shape) == (np.int32, (24, 16))
    assert np.array_equal(numbers, tokens.encode_texts(tokens.load_tokenizer(TASK), 16, written.tolist()))
    other = pictures.feature(folder, topics.config(length=32))[0]
    assert other.partitions[-1].uri != day.uri
    pictures.feature(folder, topics.CONFIG)  # as the other tests find it


@pytest.mark.slow
def test_a_model_is_trained_written_and_trained_again_to_the_same_bits(folder):
    model, _ = pictures.train(folder, topics.CONFIG)
    nothing = {"tokenizer": None, "tokenizer_sha256": storage.sha256(b"")}
    assert model.classes == parts.TextPreprocessing(classes=TASK.classes, length=16, vocabulary=512, pad=0, **nothing)
    assert model.signature.inputs[0].shape == [-1, 16]
    assert set(model.candidates) == {"words", "bert"}
    assert model.candidates["words"].validation["accuracy"] > 0.4
    assert pictures.train(folder, topics.CONFIG, "again")[0].sha256 == model.sha256
    reference = package.read_reference(str(folder / "model"))
    assert list(reference) == ["event_id", "event_time", "tokens", "variety", "score", "predicted", "embedding"]
    assert reference["tokens"].between(4, 16).all()


@pytest.mark.slow
def test_the_tokenizer_s_file_travels_with_the_model(folder, tmp_path):
    path = tmp_path / "words.json"
    letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
    library = Tokenizer(WordLevel({**letters, "[UNK]": 26, "[PAD]": 27}, unk_token="[UNK]"))
    library.pre_tokenizer = Split("", "isolated")
    path.write_text(library.to_str())
    changed = {"candidates": {"words": TASK.candidates["words"].model_dump()}, "tokenizer": str(path)}
    with pytest.raises(
        UserError, match=r"the features are of .*vocabulary.: 512.*, and the model takes .*vocabulary.: 28"
    ):
        pictures.train(folder, topics.config(**changed), "other")
    topics.prepare(tmp_path, topics.config(**changed))
    model, _ = pictures.train(tmp_path, topics.config(**changed))
    assert storage.read_bytes(f"{tmp_path}/model/{model.classes.tokenizer}") == path.read_bytes()
    assert tokens.FILE in {file.name for file in model.files}


def test_weighted_words_are_scikit_learns():
    sample = items()
    numbers = sample.shards.arrays[0]
    fitted = texts.fit(networks.FitSetup(TASK, "cpu"), "words", sample, sample.rows)
    counts = np.stack([np.bincount(row, minlength=512) for row in numbers])
    counts[:, tokens.PAD] = 0
    weigh = TfidfTransformer().fit(counts)
    theirs = LogisticRegression(C=10.0, max_iter=1000).fit(
        weigh.transform(counts), shards.labels(sample.rows, TASK.classes)
    )
    expected = theirs.predict_proba(weigh.transform(counts))
    assert np.abs(Graph(fitted.graph).score(numbers) - expected).max() < 1e-5
    assert np.abs(fitted.predict(numbers) - expected).max() < 1e-5
    assert np.abs(Graph(fitted.graph).score(numbers[:24, :9]) - expected[:24]).max() < 1e-5  # nothing to fill up


@pytest.mark.parametrize("known", [2, 1])
def test_a_class_without_a_training_row_is_never_predicted(known):
    sample = items()
    rows = sample.rows[sample.rows["label"].isin(TASK.classes[1 : known + 1])]
    setup = networks.FitSetup(TASK, "cpu")
    if known == 1:
        with pytest.raises(UserError, match=r"task.candidates.words.parameters: .*classes"):
            texts.fit(setup, "words", sample, rows)
        return
    scores = Graph(texts.fit(setup, "words", sample, rows).graph).score(sample.inputs(rows))
    assert scores[:, [0, 3]].max() < 1e-6
    assert (scores[:, 2] > 0.5).tolist() == (rows["label"] == TASK.classes[2]).tolist()


def test_the_graph_gives_the_network_s_probabilities_whatever_texts_are_filled_up_to():
    torch.manual_seed(0)
    network, numbers = recipe(), items().shards.arrays[0]
    model = network.model().eval()
    graph = texts_export.transformer(model, network)
    assert np.abs(Graph(graph).score(numbers) - class_networks.probabilities(model, numbers)).max() < 1e-6
    assert np.abs(Graph(graph).score(numbers[:24]) - Graph(graph).score(numbers[:24, :9])).max() < 1e-6
    assert texts_export.transformer(model, network) == graph


def test_a_network_that_keeps_its_texts_on_disk_or_resumes_is_the_same(tmp_path):
    sample = items()
    setup = networks.FitSetup(TASK, "cpu")
    whole = texts.fit(setup, "bert", sample, sample.rows).graph
    assert texts.fit(replace(setup, resident=0), "bert", sample, sample.rows).graph == whole
    assert texts.fit(replace(setup, checkpoints=str(tmp_path)), "bert", sample, sample.rows).graph == whole


def test_pretrained_weights_are_where_a_network_begins_and_embeddings_where_they_stay(tmp_path):
    sample, weights = items(), saved(tmp_path)
    candidate = {"kind": "bert", "parameters": {"pretrained": weights, "frozen": True, "threads": 1}}
    task = topics.task(candidates={"frozen": candidate})
    begun, _ = texts.recipe(task, "frozen").model()
    torch.manual_seed(7)
    expected, _ = recipe().model()
    assert all(
        torch.equal(a, b) for a, b in zip(begun.state_dict().values(), expected.state_dict().values(), strict=True)
    )
    ids, fitted = sample.inputs(sample.rows), texts.fit(networks.FitSetup(task, "cpu"), "frozen", sample, sample.rows)
    with torch.no_grad():
        embedded = expected(torch.from_numpy(ids)).numpy()
    theirs = LogisticRegression(max_iter=1000).fit(embedded, shards.labels(sample.rows, task.classes))
    assert np.abs(Graph(fitted.graph).score(ids) - theirs.predict_proba(embedded)).max() < 1e-4
    assert not texts.is_network(task, "frozen")


@pytest.mark.slow
def test_adapters_are_trained_while_pretrained_weights_stay_and_become_part_of_them(tmp_path):
    sample, weights = items(), saved(tmp_path)
    net = recipe(pretrained=weights, lora_rank=2, lora_alpha=8, epochs=2, learning_rate=0.05)
    learning = {name for name, parameter in net.model().named_parameters() if parameter.requires_grad}
    assert {name.split(".")[-3] for name in learning if "lora" in name} == {"lora_A", "lora_B"}
    assert {name for name in learning if "lora" not in name} == {"1.weight", "1.bias"}

    with devices.reproducible(0, threads=1):
        before = recipe(pretrained=weights).model().state_dict()
        data = class_networks.gather_dataset(networks.FitSetup(TASK, "cpu"), sample, sample.rows, 16, KEEP)
        after = net.merge(trainer.fit(Replica(net, torch.device("cpu")), data).model).state_dict()
    assert after.keys() == before.keys()
    changed = {name for name in before if not torch.equal(after[name], before[name])}
    attention = {f"layer.{layer}.attention.self.{part}.weight" for layer in (0, 1) for part in ("query", "value")}
    assert changed == {f"0.bert.encoder.{name}" for name in attention} | {"1.weight", "1.bias"}
    assert net.flops() * 3 == recipe(pretrained=weights).flops() * 2

    task = topics.task(candidates={"bert": {"kind": "bert", "parameters": net.fit.model_dump(exclude_defaults=True)}})
    fitted, numbers = texts.fit(networks.FitSetup(task, "cpu"), "bert", sample, sample.rows), sample.inputs(sample.rows)
    assert np.abs(Graph(fitted.graph).score(numbers) - fitted.predict(numbers)).max() < 1e-5


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"vocab_size": 99}, "has embeddings of 99 tokens, and task.tokenizer has 512"),
        ({"model_type": "roberta"}, "is a network of type 'roberta'"),
        ({"hidden_act": "relu"}, "its activation is 'relu'"),
        ({"max_position_embeddings": 8}, "task.length: is 16; the network takes at most 8"),
        ({"num_hidden_layers": 3}, "has no weights of encoder.layer.2"),
        ({"vocab_size": 600}, r"cannot be read"),
    ],
)
def test_pretrained_weights_that_do_not_fit_are_refused(tmp_path, changes, why):
    weights = saved(tmp_path, **changes)
    with pytest.raises(UserError, match=why):
        recipe(pretrained=weights).model()


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"pretrained": "no/such/folder"}, r"parameters.pretrained: 'no/such/folder' is no folder; name one with"),
        ({"frozen": True}, r"parameters.frozen: there is nothing pretrained to keep; .*, got True"),
        ({"lora_rank": 4}, r"parameters.lora_rank: there is nothing pretrained to adapt; .*, got 4"),
        ({"pretrained": "x", "frozen": True, "lora_rank": 4}, r"parameters.lora_rank: `frozen` trains nothing"),
        ({"width": 10, "heads": 3}, r"parameters.heads: is 3, which does not divide the width of 10"),
        ({"depth": 2}, r"parameters.depth: unknown"),
    ],
)
def test_a_wrong_parameter_is_named_where_it_stands(parameters, why):
    task = topics.task(candidates={"bert": {"kind": "bert", "parameters": parameters}})
    with pytest.raises(UserError, match=why):
        texts.recipe(task, "bert").model()


def test_a_file_that_holds_no_weights_is_refused(tmp_path):
    weights = saved(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(UserError, match=r"parameters.pretrained: .* cannot be read"):
        recipe(pretrained=weights).model()


def test_weights_of_a_commit_of_the_hub_are_those_of_a_folder(tmp_path, monkeypatch):
    folder = Path(saved(tmp_path))
    with hub.serve() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        commit = server.publish("somebody/network", files)
        theirs = recipe(pretrained=f"hf://somebody/network@{commit}").model()[0].bert.state_dict()
    ours = recipe(pretrained=str(folder)).model()[0].bert.state_dict()
    assert all(torch.equal(theirs[name], weights) for name, weights in ours.items())


def test_a_text_without_any_token_has_a_score_all_the_same():
    torch.manual_seed(0)
    network, empty = recipe(), np.full((2, 16), tokens.PAD, np.int32)
    model = network.model().eval()
    scores = Graph(texts_export.transformer(model, network)).score(empty)
    assert np.abs(scores - class_networks.probabilities(model, empty)).max() < 1e-6
    line = texts_export.Line(np.ones((512, 4)), np.array([0.0, 0.0, 0.0, 1.0]))
    assert Graph(texts_export.bag(np.ones(512), line, tokens.PAD)).score(empty)[0].argmax() == 3


def frozen(written: object):
    return topics.task(candidates={"bert": {"kind": "bert", "parameters": {"frozen": written}}})


def test_a_candidate_that_is_not_frozen_is_a_network():
    assert texts.is_network(frozen(False), "bert")


@pytest.mark.parametrize("written", ["false", "no"])
def test_a_text_does_not_say_whether_a_network_is_frozen(written):
    with pytest.raises(UserError, match=r"task\.candidates\.bert\.parameters\.frozen: .*valid boolean"):
        texts.is_network(frozen(written), "bert")


def test_operations_are_those_that_pytorch_counts():
    network = recipe()
    model = network.model()
    model[0].bert.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter:
        model(torch.ones((1, 16), dtype=torch.int32)).sum().backward()
    assert counter.get_total_flops() == network.flops()


def test_texts_of_a_batch_are_filled_up_to_the_longest_of_them_only():
    batch = torch.tensor([[1, 5, 0, 0], [1, 5, 6, 0]])
    assert texts._trim(0, batch).tolist() == [[1, 5, 0], [1, 5, 6]]
    assert texts._trim(0, batch[:1] * torch.tensor([1, 0, 1, 1]) + torch.tensor([0, 0, 7, 0])).shape == (1, 3)
    assert texts._trim(0, batch * 0).shape == (2, 1)
