"""The sizes of a language model: a preset's, or those of a `config.json`."""

import json
from pathlib import Path
from typing import Any

from nightshift.runtime.errors import UserError
from nightshift_perf.planning.models import Transformer, preset

FIELDS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "vocabulary": "vocab_size",
    "sequence": "max_position_embeddings",
}
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def read_shape(name: str) -> Transformer:
    """Return the sizes of a model.

    Args:
        name: a preset, or the path of a `config.json`, or of its folder.

    Raises:
        UserError: when there is no such model, or its layers are not Llama's.
    """
    path = Path(name, "config.json") if Path(name).is_dir() else Path(name)
    if path.suffix == ".json":
        return _parse(path)
    model = preset(name)
    if not isinstance(model, Transformer) or not model.causal or not model.gated:
        raise UserError(f"model {name!r} is not like Llama; serving is planned for such models, name one of them")
    return model


def _parse(path: Path) -> Transformer:
    try:
        config: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"the model's sizes cannot be read from {path}: {error}; give a config.json") from error
    missing = [field for field in FIELDS.values() if not isinstance(config.get(field), int)]
    if missing:
        raise UserError(f"{path} has no {', '.join(missing)}; give the config.json of a model like Llama")
    sizes = {name: config[field] for name, field in FIELDS.items()}
    _check(path, config)
    groups = config.get("num_key_value_heads") or 0
    return Transformer(**sizes, groups=groups, gated=True, tied=bool(config.get("tie_word_embeddings")))


def _check(path: Path, config: dict[str, Any]) -> None:
    for field in EXPERTS:
        if config.get(field):
            raise UserError(f"{path} has {field} {config[field]}; experts are not planned, give a dense model")
    width, heads, hidden = config.get("head_dim"), config["num_attention_heads"], config["hidden_size"]
    if width and width * heads != hidden:
        raise UserError(f"{path} has head_dim {width}; give a model of {hidden // heads}, hidden_size by its heads")
