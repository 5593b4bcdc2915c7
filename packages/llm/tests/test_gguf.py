import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from gguf import GGUFReader
from tokenizers import Regex, Tokenizer, pre_tokenizers
from tokenizers import models as bpe
from transformers import LlamaForCausalLM

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.package import Format
from nightshift.models.recipes import pretrained
from nightshift.models.weights import divide
from nightshift.runtime.errors import UserError
from nightshift_llm import gguf, llamacpp, tokenizer
from nightshift_llm.checkpoint import read_checkpoint
from nightshift_llm.gguf import WeightType, convert
from nightshift_llm.llamacpp import ContextOptions
from nightshift_llm.task.candidates import save_weights
from nightshift_llm.task.onnx_export import read_weights
from nightshift_llm.task.tokens import build_bytes_tokenizer
from nightshift_testkit import packages
from packages.llm.tests import models

BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
BYTES_ONLY = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
PRE_TOKENIZERS = {
    "gpt-2": BYTES,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES]),
    "llama-bpe": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(tokenizer.LLAMA3_SPLIT), "isolated"), BYTES_ONLY]),
    "qwen2": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(tokenizer.QWEN2_SPLIT), "isolated"), BYTES_ONLY]),
}
ODD = ["", " ", "héllo 12345 \n\n  x\t\t y's  DON'T 3.14 日本語 😀   \n", "<|end|> is text", "a\r\nb"]
# llama.cpp keeps keys and values in float16, and matrices in float16 make it round what it multiplies them by
TOLERANCES: dict[WeightType, float] = {"F32": 0.04, "F16": 0.12, "BF16": 0.6}


def write_model(folder: Path, model: LlamaForCausalLM, tokens: Tokenizer) -> None:
    models.write_tokenizer(folder, tokens)
    model.save_pretrained(folder, max_shard_size="100KB")


def log_likelihoods(logits: np.ndarray) -> np.ndarray:
    return torch.log_softmax(torch.tensor(logits), dim=-1).numpy()


@pytest.mark.parametrize("weights", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("is_tied", [False, True])
def test_llama_cpp_predicts_what_transformers_predicts(tmp_path: Path, weights: WeightType, is_tied: bool) -> None:
    tokens = models.train_tokenizer(models.LICENSE)
    model = models.tiny_llama(tokens.get_vocab_size(), tie_word_embeddings=is_tied)
    write_model(tmp_path, model, tokens)
    assert (tmp_path / "model.safetensors.index.json").exists()
    convert(tmp_path, tmp_path / "model.gguf", weights)
    ids = tokens.encode("".join(models.LICENSE[5:9])).ids[:200]
    assert len(ids) == 200
    with llamacpp.load(tmp_path / "model.gguf", ContextOptions(256)) as loaded:
        logits = loaded.logits(ids)
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    assert np.abs(log_likelihoods(logits) - log_likelihoods(expected)).max() < TOLERANCES[weights]


def test_weights_of_bfloat16_are_read_as_they_are(tmp_path: Path) -> None:
    tokens = models.train_tokenizer(models.LICENSE)
    model = models.tiny_llama(tokens.get_vocab_size()).to(torch.bfloat16)
    write_model(tmp_path, model, tokens)
    convert(tmp_path, tmp_path / "model.gguf", "F32")
    tensor = next(t for t in GGUFReader(tmp_path / "model.gguf").tensors if t.name == "blk.1.ffn_down.weight")
    stored = model.model.layers[1].mlp.down_proj.weight.detach().float().numpy()
    assert np.array_equal(tensor.data, stored)


def check_tokens(folder: Path, name: str, texts: Sequence[str]) -> None:
    """Train a tokenizer on some texts, and compare its tokens of them and of odd ones."""
    tokens = models.train_tokenizer(tuple(texts))
    tokens.pre_tokenizer = PRE_TOKENIZERS[name]
    write_model(folder, models.tiny_llama(tokens.get_vocab_size()), tokens)
    convert(folder, folder / "model.gguf")
    plain = Tokenizer.from_str(tokens.to_str())
    plain.encode_special_tokens = True  # their names in a text are text
    with llamacpp.load(folder / "model.gguf", ContextOptions(256)) as loaded:
        for text in [*texts, *ODD]:
            assert loaded.tokenize(text) == plain.encode(text).ids, text[:80]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_llama_cpp_cuts_text_as_tokenizers_does(tmp_path: Path, name: str) -> None:
    check_tokens(tmp_path, name, models.LICENSE)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_llama_cpp_cuts_genesis_as_tokenizers_does(tmp_path: Path, name: str) -> None:
    check_tokens(tmp_path, name, models.king_james())


def test_a_tokenizer_of_bytes_without_merges_is_one_too(tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(bpe.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokens.pre_tokenizer = BYTES
    tokens.add_special_tokens([models.START, models.END])
    write_model(tmp_path, models.tiny_llama(258), tokens)
    convert(tmp_path, tmp_path / "model.gguf")
    with llamacpp.load(tmp_path / "model.gguf", ContextOptions(64)) as loaded:
        assert loaded.tokenize("no merge") == tokens.encode("no merge").ids


def test_a_package_of_ours_is_read_without_settings_of_its_tokenizer(tmp_path: Path) -> None:
    content = build_bytes_tokenizer("<|endoftext|>")
    tokens = Tokenizer.from_str(content.decode())
    start = tokens.token_to_id("<|endoftext|>")
    model = models.tiny_llama(tokens.get_vocab_size(), bos_token_id=start, eos_token_id=start)
    for name, data in (*save_weights(model), ("tokenizer.json", content)):
        (tmp_path / name).write_bytes(data)
    convert(tmp_path, tmp_path / "model.gguf", "F32")
    with llamacpp.load(tmp_path / "model.gguf", ContextOptions(64)) as loaded:
        ids = loaded.tokenize("In the beginning")
        logits = loaded.logits(ids)
    assert ids == [start, *tokens.encode("In the beginning").ids]
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    assert np.abs(log_likelihoods(logits) - log_likelihoods(expected)).max() < TOLERANCES["F32"]


def test_weights_in_shards_are_listed_loaded_and_converted_as_those_of_one_file(tmp_path: Path) -> None:
    content = build_bytes_tokenizer("<|endoftext|>")
    model = models.tiny_llama(Tokenizer.from_str(content.decode()).get_vocab_size())
    graphs = {"llama": b""}
    for folder, in_graph in (("whole", 1 << 30), ("shards", 0)):
        stored = divide("llama", read_weights(model), in_graph, 50_000)
        files = [*save_weights(model, stored), ("tokenizer.json", content)]
        files += [(file.name, file.content) for file in stored]
        package.save(str(tmp_path / folder), packages.manifest(graphs), graphs, pd.DataFrame(), files)
        convert(tmp_path / folder, tmp_path / f"{folder}.gguf")

    shards = [file for file in package.load(str(tmp_path / "shards")).files if file.format is Format.SAFETENSORS]
    assert len(shards) > 2
    assert all(storage.digest(str(tmp_path / "shards" / file.name)) == file.sha256 for file in shards)
    assert all((tmp_path / "shards" / file.name).stat().st_size == file.size < 150_000 for file in shards)
    loaded = LlamaForCausalLM.from_pretrained(tmp_path / "shards").state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in model.state_dict().items())
    split, whole = (
        {tensor.name: tensor.data for tensor in GGUFReader(tmp_path / f"{folder}.gguf").tensors}
        for folder in ("shards", "whole")
    )
    assert set(split) == set(whole)
    assert all(np.array_equal(split[name], whole[name]) for name in whole)


def test_beside_shards_of_an_earlier_model_the_whole_file_is_read_as_transformers_does(tmp_path: Path) -> None:
    tokens = models.train_tokenizer(models.LICENSE)
    write_model(tmp_path, models.tiny_llama(tokens.get_vocab_size()), tokens)
    later = models.tiny_llama(tokens.get_vocab_size(), initializer_range=0.3)
    later.save_pretrained(tmp_path / "later")
    (tmp_path / "later" / "model.safetensors").rename(tmp_path / "model.safetensors")

    expected, read = LlamaForCausalLM.from_pretrained(tmp_path).state_dict(), read_checkpoint(tmp_path)

    assert all(np.array_equal(read.tensor(name), values.numpy()) for name, values in expected.items())


def test_an_index_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(UserError, match=r"index\.json: weight_map is missing"):
        read_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UserError, match="cannot be read"):
        pretrained.network(LlamaForCausalLM, "parameters.pretrained", str(tmp_path))


def test_what_a_chat_needs_is_in_the_file(original: Path) -> None:
    fields = GGUFReader(original).fields
    assert fields["tokenizer.chat_template"].contents() == models.TEMPLATE
    assert [fields[f"tokenizer.ggml.{kind}_token_id"].contents() for kind in ("bos", "eos")] == [0, 1]
    assert [fields[f"tokenizer.ggml.add_{kind}_token"].contents() for kind in ("bos", "eos")] == [True, False]


def test_neighbors_rotate_together() -> None:
    rows = np.arange(8, dtype=np.float32)[:, None]  # two heads of four
    assert gguf.interleave_halves(rows, heads=2).ravel().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def change(file: Path, **fields: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@pytest.mark.parametrize(
    ("file", "fields", "message"),
    [
        ("config.json", {"model_type": "gpt2"}, r"model_type is 'gpt2'; allowed is 'llama'"),
        ("config.json", {"rope_parameters": {"rope_type": "yarn"}}, r"rope_type is 'yarn'; allowed is 'default'"),
        ("config.json", {"rms_norm_eps": None}, r"rms_norm_eps is missing"),
        ("config.json", {"vocab_size": 100}, r"vocab_size is 100; resize its embedding"),
        ("tokenizer.json", {"normalizer": {"type": "NFC"}}, r"no byte-level BPE without a normalizer"),
        (
            "tokenizer.json",
            {"pre_tokenizer": {"type": "Whitespace"}},
            r"Whitespace.*allowed are those of gpt-2, smollm",
        ),
    ],
)
def test_what_the_file_could_not_say_is_refused(
    trained: Path, tmp_path: Path, file: str, fields: dict[str, object], message: str
) -> None:
    for source in trained.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    change(tmp_path / file, **fields)
    with pytest.raises(UserError, match=message):
        convert(tmp_path, tmp_path / "refused.gguf")
    assert not (tmp_path / "refused.gguf").exists()


def test_a_bias_is_refused(tmp_path: Path) -> None:
    tokens = models.train_tokenizer(models.LICENSE)
    write_model(tmp_path, models.tiny_llama(tokens.get_vocab_size(), attention_bias=True), tokens)
    with pytest.raises(UserError, match=r"self_attn\.\w_proj\.bias.*remove it there"):
        convert(tmp_path, tmp_path / "model.gguf")


def test_a_weight_beyond_float16_is_refused(tmp_path: Path) -> None:
    tokens = models.train_tokenizer(models.LICENSE)
    model = models.tiny_llama(tokens.get_vocab_size())
    with torch.no_grad():
        model.lm_head.weight[0, 0] = 1e5
    write_model(tmp_path, model, tokens)
    with pytest.raises(UserError, match=r"lm_head\.weight has a weight of 100000, beyond F16"):
        convert(tmp_path, tmp_path / "model.gguf")
    assert not list(tmp_path.glob("*.gguf*"))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.safetensors is missing"):
        convert(tmp_path, tmp_path / "model.gguf")


def test_a_file_that_is_no_model_is_refused_with_what_llama_cpp_says(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("root")
    with (
        pytest.raises(UserError, match=r"llama\.cpp cannot load it \(.*invalid magic"),
        llamacpp.load(tmp_path / "model.gguf", ContextOptions(8)),
    ):
        pass
