"""Sizes of models from presets and from their configurations."""

import json
from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from nightshift_perf.planning.serving.shapes import read_shape

CONFIG = {
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}


def write(folder: Path, **changed: object) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps({name: value for name, value in (CONFIG | changed).items() if value is not None}))
    return file


def test_a_configuration_has_the_sizes_of_its_preset(tmp_path: Path) -> None:
    file = write(tmp_path)

    assert read_shape(str(file)) == read_shape(str(tmp_path)) == read_shape("llama3-70b")


def test_tied_embeddings_and_missing_groups_are_read_as_transformers_reads_them(tmp_path: Path) -> None:
    model = read_shape(str(write(tmp_path, num_key_value_heads=None, tie_word_embeddings=True)))

    assert (model.groups, model.tied, model.key_width) == (0, True, 8192)


@pytest.mark.parametrize(
    ("changed", "message"),
    (
        ({"hidden_size": None}, r"config.json has no hidden_size; give the config.json of a model like Llama"),
        ({"num_local_experts": 8}, r"has num_local_experts 8; experts are not planned"),
        ({"head_dim": 256}, r"has head_dim 256; give a model of 128, hidden_size by its heads"),
    ),
)
def test_a_model_that_is_not_like_llama_is_refused(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_shape(str(write(tmp_path, **changed)))


def test_a_file_that_cannot_be_read_and_a_preset_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")

    with pytest.raises(UserError, match=r"the model's sizes cannot be read from .*; give a config.json"):
        read_shape(str(tmp_path))
    with pytest.raises(UserError, match=r"model 'bert-base' is not like Llama"):
        read_shape("bert-base")
