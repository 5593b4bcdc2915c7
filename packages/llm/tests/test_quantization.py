from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader

from nightshift import storage
from nightshift.runtime.errors import UserError
from nightshift_llm import llamacpp, quantization
from nightshift_llm.gguf import convert
from nightshift_llm.llamacpp import ContextOptions
from nightshift_llm.quantization import FORMS, quantize
from packages.llm.tests import models

Kind = GGMLQuantizationType


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_0, Kind.Q5_0])
def test_rows_are_quantized_as_the_reference_does(kind: Kind) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 256)).astype(np.float32)
    expected = gguf.quants.quantize(rows, kind)
    assert np.array_equal(llamacpp.quantize_rows(kind, rows, expected.shape[1]), expected)


@pytest.mark.parametrize(("kind", "error"), [(Kind.Q6_K, 0.02), (Kind.Q5_K, 0.04), (Kind.Q4_K, 0.08)])
def test_quantized_rows_are_near_the_original(kind: Kind, error: float) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 512)).astype(np.float32)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    again = gguf.quants.dequantize(llamacpp.quantize_rows(kind, rows, 512 // block * size), kind)
    assert error / 4 < np.linalg.norm(again - rows) / np.linalg.norm(rows) < error


def types(file: Path) -> dict[str, str]:
    return {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(file).tensors}


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine layers whose rows hold whole blocks of 256."""
    folder = tmp_path_factory.mktemp("deep")
    tokens = models.train_tokenizer(models.LICENSE)
    shape = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 9}
    models.write_tokenizer(folder, tokens)
    models.tiny_llama(tokens.get_vocab_size(), **shape).save_pretrained(folder)
    convert(folder, folder / "deep.gguf", "F16")
    return folder / "deep.gguf"


# as llama-quantize of llama.cpp chooses them (`benchmarks.language`: equal byte for byte)
@pytest.mark.parametrize(("form", "base", "sensitive"), [("Q4_K_M", "Q4_K", "Q6_K"), ("Q5_K_M", "Q5_K", "Q6_K")])
def test_values_and_down_projections_of_some_layers_get_more_bits(
    deep: Path, tmp_path: Path, form: str, base: str, sensitive: str
) -> None:
    quantize(deep, tmp_path / "model.gguf", form)
    kinds = types(tmp_path / "model.gguf")
    layers = [0, 3, 6, 7, 8]
    for name in ("attn_v", "ffn_down"):
        assert [layer for layer in range(9) if kinds[f"blk.{layer}.{name}.weight"] == sensitive] == layers
    assert {kinds[f"blk.{layer}.ffn_up.weight"] for layer in range(9)} == {base}
    assert (kinds["output.weight"], kinds["token_embd.weight"]) == ("Q6_K", base)
    assert kinds["output_norm.weight"] == "F32"


def test_a_row_that_blocks_do_not_divide_gets_a_larger_type(original: Path, tmp_path: Path) -> None:
    quantize(original, tmp_path / "model.gguf", "Q4_K_M")
    kinds = types(tmp_path / "model.gguf")  # rows of 64 and 96 numbers
    assert (kinds["blk.0.ffn_up.weight"], kinds["output.weight"]) == ("Q5_0", "Q8_0")


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_loaded_and_says_what_it_was_made_of(original: Path, tmp_path: Path, form: str) -> None:
    quantize(original, tmp_path / "model.gguf", form)
    fields, source = GGUFReader(tmp_path / "model.gguf").fields, GGUFReader(original).fields
    assert fields[quantization.ORIGINAL_KEY].contents() == storage.digest(str(original))
    assert fields["tokenizer.ggml.merges"].contents() == source["tokenizer.ggml.merges"].contents()
    with llamacpp.load(tmp_path / "model.gguf", ContextOptions(64)) as loaded:
        assert np.isfinite(loaded.logits(loaded.tokenize("In the beginning"))).all()


def test_a_tensor_of_several_chunks_is_quantized_as_one(
    deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantize(deep, tmp_path / "whole.gguf", "Q4_0")
    monkeypatch.setattr(quantization, "CHUNK", 3 * 256)
    quantize(deep, tmp_path / "pieces.gguf", "Q4_0")
    assert (tmp_path / "whole.gguf").read_bytes() == (tmp_path / "pieces.gguf").read_bytes()


def test_an_unknown_form_is_refused(original: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"form is 'Q4_K'; allowed are Q8_0, .*; did you mean 'Q4_K_M'\?"):
        quantize(original, tmp_path / "model.gguf", "Q4_K")


def test_a_quantized_model_is_not_quantized_again(original: Path, tmp_path: Path) -> None:
    quantize(original, tmp_path / "once.gguf", "Q8_0")
    with pytest.raises(UserError, match=r"is Q8_0 already; allowed are F32, F16, BF16: quantize the original"):
        quantize(tmp_path / "once.gguf", tmp_path / "twice.gguf", "Q4_0")
