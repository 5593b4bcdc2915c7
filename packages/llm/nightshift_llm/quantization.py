"""Quantized GGUF files: each row by llama.cpp's own code, the types of the tensors as `llama-quantize` mixes them.

A form such as `Q4_K_M` is a mix: most matrices get its base type, the output and half of the values and down
projections more bits, since errors there cost most (llama.cpp, `llama-quant.cpp`). K types have blocks of 256 numbers;
where these do not divide a row, the next larger type with blocks of 32 stands in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import (
    GGML_QUANT_SIZES,
    GGMLQuantizationType,
    GGUFReader,
    GGUFValueType,
    GGUFWriter,
    LlamaFileType,
    ReaderTensor,
)

from nightshift import storage
from nightshift.runtime.errors import UserError, nearest
from nightshift_llm import llamacpp
from nightshift_llm.gguf import tensor_bytes, write_atomically, write_head

Kind = GGMLQuantizationType
Floats = npt.NDArray[np.float32]

ORIGINALS = (Kind.F32, Kind.F16, Kind.BF16)
CHUNK = 2**24  # numbers of a tensor that are quantized at a time
ORIGINAL_KEY = "nightshift.original.sha256"
BLOCK = re.compile(r"blk\.(\d+)\.(.+)\.weight")
SENSITIVE = ("attn_v", "ffn_down")
OUTPUT, EMBEDDING = "output.weight", "token_embd.weight"
FALLBACKS = {Kind.Q4_K: Kind.Q5_0, Kind.Q5_K: Kind.Q5_1, Kind.Q6_K: Kind.Q8_0}


@dataclass(frozen=True)
class Mix:
    """Which types the matrices of a form get.

    Attributes:
        number: of the form in a file.
        base: of most matrices.
        sensitive: of values and down projections, in the layers that get more bits.
        output: of the output, which may be the embedding.
    """

    number: LlamaFileType
    base: Kind
    sensitive: Kind
    output: Kind = Kind.Q6_K


FORMS = {
    "Q8_0": Mix(LlamaFileType.MOSTLY_Q8_0, Kind.Q8_0, Kind.Q8_0, output=Kind.Q8_0),
    "Q6_K": Mix(LlamaFileType.MOSTLY_Q6_K, Kind.Q6_K, Kind.Q6_K),
    "Q5_K_M": Mix(LlamaFileType.MOSTLY_Q5_K_M, Kind.Q5_K, Kind.Q6_K),
    "Q5_0": Mix(LlamaFileType.MOSTLY_Q5_0, Kind.Q5_0, Kind.Q5_0),
    "Q4_K_M": Mix(LlamaFileType.MOSTLY_Q4_K_M, Kind.Q4_K, Kind.Q6_K),
    "Q4_0": Mix(LlamaFileType.MOSTLY_Q4_0, Kind.Q4_0, Kind.Q4_0),
}

TensorKinds = Mapping[str, Kind]


def quantize(original: Path, file: Path, form: str) -> None:
    """Write a quantized copy of a model; it appears when it is complete, and holds the hash of its original.

    Args:
        original: a GGUF file of a Llama in F32, F16 or BF16.
        file: to write.
        form: one of `FORMS`.

    Raises:
        UserError: when there is no such form, or the original is quantized already.
    """
    if form not in FORMS:
        raise UserError(f"form is {form!r}; allowed are {', '.join(FORMS)}{nearest(form, FORMS)}")
    reader = GGUFReader(original)
    if quantized := next((tensor for tensor in reader.tensors if tensor.tensor_type not in ORIGINALS), None):
        raise UserError(
            f"{original}: {quantized.name} is {quantized.tensor_type.name} already; "
            f"allowed are {', '.join(kind.name for kind in ORIGINALS)}: quantize the original"
        )
    rewrite(reader, file, choose_kinds(reader, FORMS[form]), FORMS[form].number)


def choose_kinds(reader: GGUFReader, mix: Mix) -> dict[str, Kind]:
    """Return the type of each tensor."""
    names = [tensor.name for tensor in reader.tensors]
    layers = 1 + max((int(match[1]) for match in map(BLOCK.fullmatch, names) if match), default=0)
    output = OUTPUT if OUTPUT in names else EMBEDDING
    wanted = {tensor.name: _wanted(tensor, mix, layers, output) for tensor in reader.tensors}
    return {tensor.name: _fit(wanted[tensor.name], int(tensor.shape[0])) for tensor in reader.tensors}


def _wanted(tensor: ReaderTensor, mix: Mix, layers: int, output: str) -> Kind:
    if len(tensor.shape) == 1:
        return Kind.F32
    if tensor.name == output:
        return mix.output
    match = BLOCK.fullmatch(tensor.name)
    if match and match[2] in SENSITIVE and _gets_more_bits(int(match[1]), layers):
        return mix.sensitive
    return mix.base


def _gets_more_bits(layer: int, layers: int) -> bool:
    """Return whether a layer is in the first or last eighth, or a third one between."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def _fit(kind: Kind, width: int) -> Kind:
    """Return a type whose blocks divide a row."""
    if width % GGML_QUANT_SIZES[kind][0]:
        kind = FALLBACKS.get(kind, kind)
    return Kind.F16 if width % GGML_QUANT_SIZES[kind][0] else kind


def rewrite(reader: GGUFReader, file: Path, kinds: TensorKinds, number: LlamaFileType) -> None:
    """Write a copy whose tensors have other types, a tensor at a time."""
    with write_atomically(file, str(reader.fields[gguf.Keys.General.ARCHITECTURE].contents())) as writer:
        _copy_fields(reader, writer)
        writer.add_file_type(number)
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        writer.add_string(ORIGINAL_KEY, storage.digest(str(reader.data.filename)))
        for tensor in reader.tensors:
            shape, kind = tuple(int(size) for size in reversed(tensor.shape)), kinds[tensor.name]
            writer.add_tensor_info(tensor.name, shape, np.dtype(np.float32), tensor_bytes(shape, kind), kind)
        write_head(writer)
        for tensor in reader.tensors:
            writer.write_tensor_data(_convert(tensor, kinds[tensor.name]))


def _copy_fields(reader: GGUFReader, writer: GGUFWriter) -> None:
    replaced = {gguf.Keys.General.ARCHITECTURE, gguf.Keys.General.FILE_TYPE, gguf.Keys.General.QUANTIZATION_VERSION}
    for field in reader.fields.values():
        if field.name in replaced or field.name.startswith("GGUF.") or field.name == ORIGINAL_KEY:
            continue
        kind = field.types[0]
        item = field.types[-1] if kind is GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, item)


def dequantize(tensor: ReaderTensor) -> Floats:
    """Return a tensor's numbers, by the reference implementation of gguf."""
    values: Floats = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    return values.reshape(tuple(reversed(tensor.shape)))


def _convert(tensor: ReaderTensor, kind: Kind) -> npt.NDArray[np.generic]:
    if kind is tensor.tensor_type:
        return np.ascontiguousarray(tensor.data)
    height = max(1, CHUNK // int(tensor.shape[0]))
    chunks = (tensor.data[start : start + height] for start in range(0, len(tensor.data), height))
    return np.concatenate([_encode(gguf.quants.dequantize(rows, tensor.tensor_type), kind) for rows in chunks])


def _encode(rows: Floats, kind: Kind) -> npt.NDArray[np.generic]:
    if kind in ORIGINALS:
        return gguf.quants.quantize(rows, kind)
    return llamacpp.quantize_rows(kind, rows, tensor_bytes(rows.shape[1:], kind))
