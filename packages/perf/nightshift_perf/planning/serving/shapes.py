"""The sizes of a language model, and the precision of its weights: a preset's, or those of a `config.json`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightshift.runtime.errors import UserError, nearest
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
LLM_COMPRESSOR, MODEL_OPTIMIZER = "compressed-tensors", "modelopt"


@dataclass(frozen=True)
class Family:
    """What the configuration of a family means where it leaves a field out, as in transformers.

    Attributes:
        tied: whether input and output share their embedding.
        head_dim: width of a head; 0: `hidden_size / num_attention_heads`.
    """

    tied: bool = False
    head_dim: int = 0


# `model_type` of decoders with gated feed-forward layers and keys and values by group
FAMILIES = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "phi3", "granite", "olmo2"), Family()),
    "qwen3": Family(head_dim=128),
    **dict.fromkeys(("gemma", "gemma2", "gemma3_text"), Family(tied=True, head_dim=256)),
}


def read_shape(name: str) -> Transformer:
    """Return the sizes of a model.

    Args:
        name: a preset, or the path of a `config.json`, or of its folder.

    Raises:
        UserError: when there is no such model, or its layers are not Llama's.
    """
    path = find_config(name)
    if path:
        return _parse(path, _read(path))
    model = preset(name)
    if not isinstance(model, Transformer) or not model.causal or not model.gated:
        raise UserError(f"model {name!r} is not like Llama; serving is planned for such models, name one of them")
    return model


def read_precision(name: str) -> str | None:
    """Return the precision that the weights of a `config.json` are quantized to; None for 16 bits, and for a preset.

    Raises:
        UserError: when they are quantized to another one than `fp8` or `int4`.
    """
    path = find_config(name)
    quantization: dict[str, Any] = (_read(path).get("quantization_config") or {}) if path else {}
    method = quantization.get("quant_method", "")
    if not quantization:
        return None
    if method == "fp8" or (method == MODEL_OPTIMIZER and quantization.get("quant_algo") == "FP8"):
        return "fp8"
    if method in ("awq", "gptq") and quantization.get("bits") == 4:
        return "int4"
    groups = quantization.get("config_groups", {}).values() if method == LLM_COMPRESSOR else ()
    kinds = {(group["weights"]["type"], group["weights"]["num_bits"]) for group in groups}
    if kinds in ({("float", 8)}, {("int", 4)}):
        return "fp8" if ("float", 8) in kinds else "int4"
    raise UserError(
        f"{path} has quantization_config {json.dumps(quantization)[:200]}; planned are FP8 (fp8, modelopt, "
        "compressed-tensors) and 4-bit weights (awq, gptq, compressed-tensors); give such a model, or one in 16 bits"
    )


def find_config(name: str) -> Path | None:
    """Return the path of a model's `config.json`, None where its name is a preset's."""
    path = Path(name, "config.json") if Path(name).is_dir() else Path(name)
    return path if path.suffix == ".json" else None


def _read(path: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"the model's sizes cannot be read from {path}: {error}; give a config.json") from error
    return config


def _parse(path: Path, config: dict[str, Any]) -> Transformer:
    missing = [field for field in FIELDS.values() if not isinstance(config.get(field), int)]
    if missing:
        raise UserError(f"{path} has no {', '.join(missing)}; give the config.json of a model like Llama")
    family = _find_family(path, config)
    return Transformer(
        **{name: config[field] for name, field in FIELDS.items()},
        groups=config.get("num_key_value_heads") or 0,
        head_dim=config.get("head_dim") or family.head_dim,
        gated=True,
        tied=config.get("tie_word_embeddings", family.tied),
    )


def _find_family(path: Path, config: dict[str, Any]) -> Family:
    for field in EXPERTS:
        if config.get(field):
            raise UserError(f"{path} has {field} {config[field]}; experts are not planned, give a dense model")
    kind = config.get("model_type", "")
    if kind not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UserError(f"{path} has model_type {kind!r}{nearest(kind, FAMILIES)}; serving is planned for {known}")
    return FAMILIES[kind]
