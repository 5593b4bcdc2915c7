"""Converts the folder of a Llama to a GGUF file, a tensor at a time.

llama.cpp rotates neighboring numbers of a head, `transformers` the two halves of it, so the rows of queries and keys
change their order (Su et al., RoFormer, 2021, section 3.4.2, has the pairs). Norms stay in float32.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, LlamaFileType

from nightshift.runtime.errors import UserError
from nightshift_llm.checkpoint import CONFIG, Checkpoint, read_checkpoint
from nightshift_llm.tokenizer import Vocabulary, read_vocabulary

WeightType = Literal["F32", "F16", "BF16"]
Floats = npt.NDArray[np.float32]

FILE_TYPES = {
    "F32": LlamaFileType.ALL_F32,
    "F16": LlamaFileType.MOSTLY_F16,
    "BF16": LlamaFileType.MOSTLY_BF16,
}
GLOBAL_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.weight")


def convert(folder: Path, file: Path, weights: WeightType = "F16") -> None:
    """Convert a model to one file, written atomically.

    Args:
        folder: `config.json`, safetensors and `tokenizer.json` of a model of the architecture `llama`.
        file: to write.
        weights: type of the matrices.

    Raises:
        UserError: when the folder has a part that the file could not say, or a weight is out of the type's range.
    """
    checkpoint = read_checkpoint(folder)
    _check(checkpoint)
    vocabulary = read_vocabulary(checkpoint)
    with write_atomically(file, "llama") as writer:
        _add_shape(writer, checkpoint)
        _add_vocabulary(writer, vocabulary)
        writer.add_file_type(FILE_TYPES[weights])
        _write_tensors(writer, checkpoint, weights)


@contextmanager
def write_atomically(file: Path, architecture: str) -> Iterator[GGUFWriter]:
    """Write a file atomically during the block; if the block fails, no file is left."""
    partial = file.with_name(f"{file.name}.partial")
    writer = GGUFWriter(partial, architecture)
    try:
        yield writer
        writer.close()
        partial.replace(file)
    finally:
        writer.close()
        partial.unlink(missing_ok=True)


def write_head(writer: GGUFWriter) -> None:
    """Write the header and the metadata."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()


def _write_tensors(writer: GGUFWriter, checkpoint: Checkpoint, weights: WeightType) -> None:
    names = tensor_names(checkpoint)
    kinds = {name: _kind(checkpoint.tensors[name].shape, weights) for name in names}
    for name, renamed in names.items():
        shape, kind = checkpoint.tensors[name].shape, kinds[name]
        writer.add_tensor_info(renamed, shape, np.dtype(np.float32), tensor_bytes(shape, kind), kind)
    write_head(writer)
    for name in names:
        writer.write_tensor_data(_encode(name, _arrange(checkpoint, name), kinds[name]))


def tensor_bytes(shape: Sequence[int], kind: GGMLQuantizationType) -> int:
    """Return the bytes of a tensor of a type."""
    block, size = GGML_QUANT_SIZES[kind]
    return int(np.prod(shape)) // block * size


def tensor_names(checkpoint: Checkpoint) -> dict[str, str]:
    """Return each tensor's name in the file, by its name in the folder; a tied output is no tensor of its own.

    Raises:
        UserError: for the first tensor that the architecture does not have, such as a bias.
    """
    is_tied = checkpoint.config.get("tie_word_embeddings", False)
    names = [name for name in checkpoint.tensors if not (is_tied and name == "lm_head.weight")]
    return {name: _rename(name, checkpoint.folder) for name in names}


def _rename(name: str, folder: Path) -> str:
    if name in GLOBAL_NAMES:
        return GLOBAL_NAMES[name]
    match = LAYER.fullmatch(name)
    if not match or match[2] not in LAYER_NAMES:
        raise UserError(
            f"{folder} has the tensor {name!r}, which a Llama without biases does not have; remove it there"
        )
    return f"blk.{match[1]}.{LAYER_NAMES[match[2]]}.weight"


def _check(checkpoint: Checkpoint) -> None:
    path, kind = checkpoint.folder / CONFIG, checkpoint.field("model_type")
    if kind != "llama":
        raise UserError(f"{path}: model_type is {kind!r}; allowed is 'llama': convert others with llama.cpp's own tool")
    if (activation := checkpoint.config.get("hidden_act", "silu")) != "silu":
        raise UserError(f"{path}: hidden_act is {activation!r}; allowed is 'silu'")
    rope = _rope(checkpoint).get("rope_type") or _rope(checkpoint).get("type", "default")
    if rope != "default":
        raise UserError(f"{path}: rope_type is {rope!r}; allowed is 'default': train with a larger rope_theta instead")


def _rope(checkpoint: Checkpoint) -> Mapping[str, object]:
    return checkpoint.config.get("rope_parameters") or checkpoint.config.get("rope_scaling") or {}


def _add_shape(writer: GGUFWriter, checkpoint: Checkpoint) -> None:
    width, heads = checkpoint.field("hidden_size"), checkpoint.field("num_attention_heads")
    head = checkpoint.config.get("head_dim") or width // heads
    writer.add_name(checkpoint.folder.name)
    writer.add_context_length(checkpoint.field("max_position_embeddings"))
    writer.add_embedding_length(width)
    writer.add_block_count(checkpoint.field("num_hidden_layers"))
    writer.add_feed_forward_length(checkpoint.field("intermediate_size"))
    writer.add_head_count(heads)
    writer.add_head_count_kv(checkpoint.field("num_key_value_heads"))
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(float(str(_rope(checkpoint).get("rope_theta") or checkpoint.field("rope_theta"))))
    writer.add_layer_norm_rms_eps(checkpoint.field("rms_norm_eps"))
    writer.add_vocab_size(checkpoint.field("vocab_size"))


def _add_vocabulary(writer: GGUFWriter, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(vocabulary.pre_tokenizer)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    for kind, number in vocabulary.special.items():
        getattr(writer, f"add_{kind}_token_id")(number)
    writer.add_add_bos_token(vocabulary.adds["bos"])
    writer.add_add_eos_token(vocabulary.adds["eos"])
    if vocabulary.chat_template:
        writer.add_chat_template(vocabulary.chat_template)


def _kind(shape: tuple[int, ...], weights: WeightType) -> GGMLQuantizationType:
    return GGMLQuantizationType.F32 if len(shape) == 1 else GGMLQuantizationType[weights]


def _arrange(checkpoint: Checkpoint, name: str) -> Floats:
    values = checkpoint.tensor(name)
    if name.endswith("q_proj.weight"):
        return interleave_halves(values, checkpoint.field("num_attention_heads"))
    if name.endswith("k_proj.weight"):
        return interleave_halves(values, checkpoint.field("num_key_value_heads"))
    return values


def interleave_halves(rows: Floats, heads: int) -> Floats:
    """Return rows of shape (heads * d, width) so that those that rotate together, i and i + d/2, are neighbors."""
    halves = rows.reshape(heads, 2, -1, rows.shape[1])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def _encode(name: str, values: Floats, kind: GGMLQuantizationType) -> npt.NDArray[np.generic]:
    largest = float(np.abs(values).max())
    if not np.isfinite(largest):
        raise UserError(f"{name} has a weight that is not finite; train the model again")
    if kind is GGMLQuantizationType.F16 and largest > float(np.finfo(np.float16).max):
        raise UserError(f"{name} has a weight of {largest:g}, beyond F16; convert with weights BF16 or F32")
    return np.ascontiguousarray(gguf.quants.quantize(values, kind))
