"""From a text to numbers of tokens: by a tokenizer's file, or by hashes of words, which needs no file at all."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import Tokenizer as Library
from tokenizers import normalizers, pre_tokenizers

from nightshift import storage
from nightshift.hub import snapshots
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Tokens = npt.NDArray[np.int32]

# part of every shard's key: raise it whenever the same words would get other numbers
SCHEMA = 1
HASHED = "(hashes of words)"
FILE = "tokenizer.json"
PAD, START = 0, 1  # ids of hashed words; a text without any word has its start


@dataclass(frozen=True)
class Tokenizer:
    """How texts are split, and what numbers their parts get.

    Attributes:
        content: of a `tokenizer.json`, as the library `tokenizers` writes it; empty: words, by their hashes.
        vocabulary: how many numbers there are.
        pad: the number that fills texts up.
    """

    content: bytes
    vocabulary: int
    pad: int

    @property
    def key(self) -> list[Any]:
        """What decides the numbers of a text's tokens."""
        return [SCHEMA, tokenizers.__version__, self.sha256, self.vocabulary]

    @property
    def sha256(self) -> str:
        """Hash of the file, or of nothing."""
        return storage.sha256(self.content)


class TokenizerSettings(Protocol):
    """How texts are split: a config's task."""

    @property
    def tokenizer(self) -> str | None:
        """Path or URI of a `tokenizer.json`; None: words, by their hashes."""

    @property
    def vocabulary(self) -> int:
        """Numbers that hashed words get."""


def load_tokenizer(task: TokenizerSettings) -> Tokenizer:
    """Return the tokenizer of a config.

    Raises:
        UserError: when its file is missing or none.
    """
    if task.tokenizer is None:
        return Tokenizer(b"", task.vocabulary, PAD)
    try:
        return read(read_file(task.tokenizer))
    except ValueError as error:
        raise UserError(
            f"task.tokenizer: {task.tokenizer} cannot be read ({error}); name a tokenizer.json, which lies beside the "
            "weights of a pretrained network, or leave it out"
        ) from None


def read_file(uri: str) -> bytes:
    """Return the content of a `tokenizer.json`: of a path or URI, or of `hf://organization/name@commit`.

    Raises:
        UserError: when it is missing, or the Hub's has no commit.
        UnavailableError: when the Hub does not answer.
    """
    if snapshots.is_reference(uri):
        uri = storage.join(snapshots.download("task.tokenizer", uri), FILE)
    return storage.read_bytes(uri)


@cache
def read(content: bytes) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`.

    Raises:
        ValueError: when it is none.
    """
    try:
        library = Library.from_buffer(content)
    except Exception as error:  # the library raises no class of its own
        raise ValueError(str(error)) from None
    padding = library.padding
    pad = padding["pad_id"] if padding else library.token_to_id("[PAD]")
    if pad is None:
        raise ValueError("it has no padding and no token [PAD]")
    return Tokenizer(content, max(library.get_vocab().values()) + 1, pad)


def encode_texts(tokenizer: Tokenizer, length: int, texts: Sequence[str]) -> Tokens:
    """Return the numbers of texts' tokens, int32 (n, length): longer texts are cut, shorter ones filled up.

    Args:
        tokenizer: how they are split.
        length: tokens of each.
        texts: n.
    """
    numbers = _by_file(tokenizer.content, length, texts) if tokenizer.content else _hash_words(tokenizer, length, texts)
    encoded = np.full((len(texts), length), tokenizer.pad, np.int32)
    for row, ids in zip(encoded, numbers, strict=True):
        row[: len(ids)] = ids
    return encoded


def decode_texts(content: bytes, numbers: Tokens) -> list[str]:
    """Return n texts as the tokenizer of a `tokenizer.json` spells them; of hashes nobody can.

    Args:
        content: of the file; empty: words, by their hashes.
        numbers: of the texts' tokens, (n, length).
    """
    if not content:
        return [HASHED] * len(numbers)
    return _library(content, numbers.shape[1]).decode_batch(numbers.tolist())


def count_tokens(tokenizer: Tokenizer, numbers: Tokens) -> "csr_array":
    """Return how often each text, of tokens (n, length), has each token, float64 (n, vocabulary); padding is none."""
    from scipy.sparse import csr_array  # the server's image has no SciPy

    rows, columns = np.nonzero(numbers != tokenizer.pad)
    cells = (np.ones(len(rows)), (rows, numbers[rows, columns]))
    return csr_array(cells, shape=(len(numbers), tokenizer.vocabulary))


def _by_file(content: bytes, length: int, texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in _library(content, length).encode_batch_fast(list(texts))]


def _hash_words(tokenizer: Tokenizer, length: int, texts: Sequence[str]) -> list[list[int]]:
    """Return numbers of words (Weinberger et al., Feature Hashing for Large Scale Multitask Learning, 2009)."""
    words = (_words(text)[: length - 1] for text in texts)
    return [[START, *(_hash(word, tokenizer.vocabulary) for word in words_of_text)] for words_of_text in words]


def _hash(word: str, vocabulary: int) -> int:
    return START + 1 + zlib.crc32(word.encode()) % (vocabulary - START - 1)


def _words(text: str) -> list[str]:
    """Return a text's words and marks, in lower case and without accents."""
    plain = normalizers.BertNormalizer().normalize_str(text)
    return [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(plain)]


@cache
def _library(content: bytes, length: int) -> Library:
    library = Library.from_buffer(content)
    library.no_padding()
    library.enable_truncation(length)
    return library
