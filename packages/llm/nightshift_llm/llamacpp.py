"""llama.cpp in this process: tokens, logits and quantized rows, by the C interface that the wheel of xllamacpp exports.

xllamacpp's own classes serve requests only. `llama.h` passes parameters as structures by value whose fields grow with
every release, so they are opaque here: larger than any release's, filled by llama.cpp's own defaults, and only the
first three fields of the context's, which have not changed since 2023, are set. A callee reads what it knows of.
"""

import ctypes
import functools
import importlib.util
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.runtime.errors import UserError, require_extra
from nightshift_llm import DISTRIBUTION

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

MAX_PIECE = 1024  # bytes of a token
BUFFER = ctypes.create_string_buffer(MAX_PIECE)


class NativeParameters(ctypes.Structure):
    """`llama_model_params` and `llama_context_params`; of a context the first words are n_ctx, n_batch and n_ubatch."""

    _fields_ = [("words", ctypes.c_uint32 * 256)]


class NativeBatch(ctypes.Structure):
    """`llama_batch`: tokens, their positions and sequences, and which of them get logits."""

    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
LOG_ERROR = 4
errors: deque[str] = deque(maxlen=4)  # llama.cpp's last messages


def _keep_error(level: int, text: bytes, _: object) -> None:
    if level == LOG_ERROR:
        errors.append(text.decode(errors="replace").strip())


LOG = LogCallback(_keep_error)  # kept here, since llama.cpp holds no reference

POINTER, INT, LONG, TEXT = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_char_p
# function -> type of its result, types of its arguments
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "llama_log_set": (None, [LogCallback, POINTER]),
    "llama_backend_init": (None, []),
    "llama_model_default_params": (NativeParameters, []),
    "llama_context_default_params": (NativeParameters, []),
    "llama_model_load_from_file": (POINTER, [TEXT, NativeParameters]),
    "llama_model_free": (None, [POINTER]),
    "llama_model_get_vocab": (POINTER, [POINTER]),
    "llama_init_from_model": (POINTER, [POINTER, NativeParameters]),
    "llama_free": (None, [POINTER]),
    "llama_get_memory": (POINTER, [POINTER]),
    "llama_memory_clear": (None, [POINTER, ctypes.c_bool]),
    "llama_set_n_threads": (None, [POINTER, INT, INT]),
    "llama_vocab_n_tokens": (INT, [POINTER]),
    "llama_vocab_bos": (INT, [POINTER]),
    "llama_tokenize": (INT, [POINTER, TEXT, INT, POINTER, INT, ctypes.c_bool, ctypes.c_bool]),
    "llama_token_to_piece": (INT, [POINTER, INT, TEXT, INT, INT, ctypes.c_bool]),
    "llama_batch_init": (NativeBatch, [INT, INT, INT]),
    "llama_batch_free": (None, [NativeBatch]),
    "llama_decode": (INT, [POINTER, NativeBatch]),
    "llama_get_logits": (ctypes.POINTER(ctypes.c_float), [POINTER]),
    "ggml_quantize_chunk": (ctypes.c_size_t, [INT, POINTER, POINTER, LONG, LONG, LONG, POINTER]),
}


@functools.cache
def library() -> ctypes.CDLL:
    """Return llama.cpp's functions.

    Raises:
        UserError: when xllamacpp is missing, or exports them no more.
    """
    with require_extra("language", "engine", DISTRIBUTION):
        spec = importlib.util.find_spec("xllamacpp.xllamacpp")
    assert spec and spec.origin
    functions = ctypes.CDLL(spec.origin)
    for name, (result, arguments) in SIGNATURES.items():
        if not hasattr(functions, name):
            raise UserError(f"xllamacpp exports no {name}; install the version in constraints/")
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments
    functions.llama_log_set(LOG, None)
    functions.llama_backend_init()
    return functions


def quantize_rows(kind: int, rows: Floats, row_bytes: int) -> Bytes:
    """Return quantized rows as llama.cpp computes them, uint8 of shape (n, row_bytes).

    Args:
        kind: number of the type, as in `ggml.h`.
        rows: float32 of shape (n, width); the type's block divides the width.
        row_bytes: of a quantized row.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    quantized = np.empty((len(rows), row_bytes), dtype=np.uint8)
    size = library().ggml_quantize_chunk(kind, rows.ctypes.data, quantized.ctypes.data, 0, *rows.shape, None)
    assert size == quantized.nbytes
    return quantized


@dataclass(frozen=True)
class ContextOptions:
    """The options of a llama.cpp context.

    Attributes:
        tokens: context length in tokens.
        threads: number of CPU threads.
    """

    tokens: int = 512
    threads: int = 1


class LoadedModel:
    """A model with its own llama.cpp context, for one text at a time.

    Attributes:
        context: context length in tokens.
    """

    def __init__(self, model: int, state: int, context: int) -> None:
        self._model, self._state, self.context = model, state, context
        self._vocabulary = library().llama_model_get_vocab(model)

    @property
    def vocabulary(self) -> int:
        """The vocabulary size."""
        return int(library().llama_vocab_n_tokens(self._vocabulary))

    def tokenize(self, text: str) -> list[int]:
        """Return a text's tokens, with the ones that the model puts before and after it; names of tokens are text."""
        data = text.encode()
        tokens = np.empty(len(data) + 8, dtype=np.int32)
        count = library().llama_tokenize(
            self._vocabulary, data, len(data), tokens.ctypes.data, len(tokens), True, False
        )
        assert count >= 0, "a token has at least one byte"
        return [int(token) for token in tokens[:count]]

    def text_bytes(self, token: int) -> int:
        """Return the byte length of a token; 0 for the beginning-of-text token."""
        if token == library().llama_vocab_bos(self._vocabulary):
            return 0  # llama.cpp takes some of them for text by their names, such as <|start|>
        return int(library().llama_token_to_piece(self._vocabulary, token, BUFFER, MAX_PIECE, 0, False))

    def logits(self, tokens: Sequence[int]) -> Floats:
        """Return the logits after each of some tokens, at most `context` of them; float32 (n, vocabulary)."""
        self._forget()
        self._decode(tokens, 0)
        shape = (len(tokens), self.vocabulary)
        return np.ctypeslib.as_array(library().llama_get_logits(self._state), shape).copy()

    def decode_seconds(self, tokens: Sequence[int]) -> float:
        """Return the seconds to decode tokens one at a time, as in generation."""
        self._forget()
        started = time.perf_counter()
        for position, token in enumerate(tokens):
            self._decode([token], position)
            library().llama_get_logits(self._state)  # waits until it is computed
        return time.perf_counter() - started

    def _forget(self) -> None:
        library().llama_memory_clear(library().llama_get_memory(self._state), True)

    def _decode(self, tokens: Sequence[int], position: int) -> None:
        with _batch(tokens, position) as batch:
            status = library().llama_decode(self._state, batch)
        if status:
            raise RuntimeError(f"llama_decode ended with status {status} on {len(tokens)} tokens")


@contextmanager
def load(file: Path, options: ContextOptions) -> Iterator[LoadedModel]:
    """Load a GGUF file during the block.

    Raises:
        UserError: when llama.cpp cannot.
    """
    functions = library()
    errors.clear()
    model = functions.llama_model_load_from_file(str(file).encode(), functions.llama_model_default_params())
    if not model:
        raise UserError(
            f"model {file}: llama.cpp cannot load it ({'; '.join(errors)}); name a GGUF file of a text model"
        )
    parameters = functions.llama_context_default_params()
    parameters.words[:3] = [options.tokens] * 3
    state = functions.llama_init_from_model(model, parameters)
    functions.llama_set_n_threads(state, options.threads, options.threads)
    try:
        yield LoadedModel(model, state, options.tokens)
    finally:
        functions.llama_free(state)
        functions.llama_model_free(model)


@contextmanager
def _batch(tokens: Sequence[int], position: int) -> Iterator[NativeBatch]:
    batch = library().llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for index, token in enumerate(tokens):
        batch.token[index], batch.pos[index], batch.n_seq_id[index] = token, position + index, 1
        batch.seq_id[index][0], batch.logits[index] = 0, 1
    try:
        yield batch
    finally:
        library().llama_batch_free(batch)
