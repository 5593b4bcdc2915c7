"""Sizes of models from presets and from their configurations."""

import json
from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from nightshift_perf.planning.serving.shapes import read_precision, read_shape

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
FLOAT8, INT4 = {"type": "float", "num_bits": 8}, {"type": "int", "num_bits": 4}


def write(folder: Path, **changed: object) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps({name: value for name, value in (CONFIG | changed).items() if value is not None}))
    return file


def sizes(kind: str, layers: int, hidden: int, heads: int, inner: int, vocabulary: int, **others: int) -> dict:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "tie_word_embeddings": None,
        **others,
    }


def compress(weights: dict[str, object]) -> dict[str, object]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


def test_a_configuration_has_the_sizes_of_its_preset(tmp_path: Path) -> None:
    file = write(tmp_path)

    assert read_shape(str(file)) == read_shape(str(tmp_path)) == read_shape("llama3-70b")


@pytest.mark.parametrize(
    ("config", "billions", "key_width"),
    (
        (sizes("mistral", 40, 5120, 32, 14336, 131072, num_key_value_heads=8, head_dim=128), 12.25, 1024),
        (sizes("qwen3", 36, 2560, 32, 9728, 151936, num_key_value_heads=8) | {"tie_word_embeddings": True}, 4.02, 1024),
        (sizes("gemma", 28, 3072, 16, 24576, 256000, num_key_value_heads=16, head_dim=256), 8.54, 4096),
    ),
    ids=("Mistral-Nemo 12B", "Qwen3 4B", "Gemma 7B"),
)
def test_heads_are_as_wide_as_the_configuration_says_and_parameters_as_many_as_published(
    tmp_path: Path, config: dict[str, object], billions: float, key_width: int
) -> None:
    model = read_shape(str(write(tmp_path, **config)))

    assert model.parameters / 1e9 == pytest.approx(billions, rel=2e-3)
    assert model.key_width == key_width


def test_tied_embeddings_and_missing_groups_are_read_as_transformers_reads_them(tmp_path: Path) -> None:
    model = read_shape(str(write(tmp_path, num_key_value_heads=None, tie_word_embeddings=True)))

    assert (model.groups, model.tied, model.key_width) == (0, True, 8192)


@pytest.mark.parametrize(
    ("changed", "message"),
    (
        ({"hidden_size": None}, r"config.json has no hidden_size; give the config.json of a model like Llama"),
        ({"num_local_experts": 8}, r"has num_local_experts 8; experts are not planned"),
        ({"model_type": "starcoder2"}, r"has model_type 'starcoder2'.*; serving is planned for llama, mistral"),
        ({"model_type": "qwen4"}, r"has model_type 'qwen4'; did you mean 'qwen\d'"),
    ),
)
def test_a_model_that_is_not_like_llama_is_refused(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_shape(str(write(tmp_path, **changed)))


@pytest.mark.parametrize(
    ("quantization", "precision"),
    (
        (None, None),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        (compress(FLOAT8), "fp8"),
        (compress(INT4), "int4"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 4}, "int4"),
    ),
)
def test_the_precision_of_quantized_weights_is_that_of_the_configuration(
    tmp_path: Path, quantization: object, precision: str | None
) -> None:
    assert read_precision(str(write(tmp_path, quantization_config=quantization))) == precision
    assert read_precision("llama3-70b") is None


@pytest.mark.parametrize(
    "quantization",
    (
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        compress(FLOAT8) | {"config_groups": {"a": {"weights": FLOAT8}, "b": {"weights": INT4}}},
        {"load_in_4bit": True},
    ),
)
def test_weights_of_another_precision_are_refused(tmp_path: Path, quantization: object) -> None:
    with pytest.raises(UserError, match=r"has quantization_config .*; planned are FP8"):
        read_precision(str(write(tmp_path, quantization_config=quantization)))


def test_a_file_that_cannot_be_read_and_a_preset_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")

    with pytest.raises(UserError, match=r"the model's sizes cannot be read from .*; give a config.json"):
        read_shape(str(tmp_path))
    with pytest.raises(UserError, match=r"model 'bert-base' is not like Llama"):
        read_shape("bert-base")
