"""Byte-level tokenizers: from texts to token ids."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import tokenizers
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from nightshift import storage
from nightshift.contracts.package import ModelPackage, read_tokenizer
from nightshift.items.tokens import Tokens, read_file
from nightshift.runtime.errors import UserError
from nightshift_llm.config import LanguageTaskConfig
from nightshift_llm.preprocessing import LanguagePreprocessing
from nightshift_llm.task import chats

SCHEMA = 2  # part of every partition's key: raise it whenever the same texts would get other numbers
FILE = "tokenizer.json"  # in a package
PROBES = (" spaces at both ends ", "ÄB İ é naïve", "हिन्दी 日本語 🙂", "a\n\n\tb  c", "Zz0@~")  # none may lose a byte
LEAST = 256 + 1 + len(chats.MARKS)  # numbers


@dataclass(frozen=True)
class ByteTokenizer:
    """A tokenizer and its special tokens.

    Attributes:
        content: content of a `tokenizer.json`, as the library `tokenizers` writes it.
        start: id of the token that begins a text, which no text contains.
        vocabulary: vocabulary size.
        chat: whether texts are chats.
    """

    content: bytes
    start: int
    vocabulary: int
    chat: bool

    @property
    def sha256(self) -> str:
        """Hash of the file."""
        return storage.sha256(self.content)

    @property
    def key(self) -> list[Any]:
        """The inputs that determine token ids."""
        return [SCHEMA, tokenizers.__version__, self.sha256, self.start, self.chat]

    @cached_property
    def byte_lengths(self) -> Tokens:
        """The byte length of each token, int32 (2 vocabulary,); 0 for special and masked tokens."""
        library, lengths = _library(self.content), np.zeros(2 * self.vocabulary, np.int32)
        for token, number in library.get_vocab(with_added_tokens=False).items():
            lengths[number] = len(token)  # a character is a byte
        for number, added in library.get_added_tokens_decoder().items():
            lengths[number] = 0 if added.special else len(added.content.encode())
        return lengths

    def count_bytes(self, document: Tokens) -> int:
        """Return the total byte length of tokens; masked ones count 0."""
        return int(self.byte_lengths[document].sum())

    @cached_property
    def _marks(self) -> tuple[int, ...]:
        """The ids of the tokens that begin and end a message."""
        vocabulary = _library(self.content).get_vocab()
        return tuple(vocabulary[mark] for mark in chats.MARKS)

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the numbers of each text's tokens after `start`, int32 (tokens + 1,); raised where it is only read."""
        numbered = map(self._encode_chat, texts) if self.chat else self._encode_texts(texts)
        return [np.array([self.start, *numbers], np.int32) for numbers in numbered]

    def decode(self, tokens: Tokens) -> str:
        """Return the text of tokens, int32 (n,), without its marks."""
        text: str = _library(self.content).decode([*(tokens % self.vocabulary)], skip_special_tokens=True)
        return text

    def _encode_texts(self, texts: Sequence[str]) -> Iterator[list[int]]:
        encodings = _library(self.content).encode_batch_fast(list(texts), add_special_tokens=False)
        return (encoding.ids for encoding in encodings)

    def _encode_chat(self, text: str) -> Iterator[int]:
        """Yield the token ids of a chat; all but the assistant's messages and their ends are masked."""
        begin, end = self._marks
        read_only = self.vocabulary
        for message in chats.parse_chat(text):
            role, content, line = self._encode_texts([f"{message.role}\n", message.content, "\n"])
            raised = 0 if message.role == chats.ASSISTANT else read_only
            yield from (number + read_only for number in (begin, *role))
            yield from (number + raised for number in (*content, end))
            yield from (number + read_only for number in line)


def load_tokenizer(task: LanguageTaskConfig) -> ByteTokenizer:
    """Return the tokenizer of a config.

    Raises:
        UserError: when its file is missing, is none of bytes, or lacks the token that begins a text.
    """
    content = build_bytes_tokenizer(task.start) if task.tokenizer is None else read_file(task.tokenizer)
    try:
        library = _library(content)
    except ValueError as error:
        raise UserError(
            f"task.tokenizer: {task.tokenizer} cannot be read ({error}); name a tokenizer.json that encodes bytes, or "
            "leave it out"
        ) from None
    special = {token.content: number for number, token in library.get_added_tokens_decoder().items() if token.special}
    if task.start not in special:
        raise UserError(f"task.start: is {task.start!r}, which {task.tokenizer} lacks; allowed: {[*special][:20]}")
    if task.chat and (missing := [mark for mark in chats.MARKS if mark not in special]):
        raise UserError(f"task.chat: {task.tokenizer} lacks {missing[0]!r}; name a tokenizer of ChatML")
    return _check(ByteTokenizer(content, special[task.start], max(library.get_vocab().values()) + 1, task.chat), task)


def _check(tokenizer: ByteTokenizer, task: LanguageTaskConfig) -> ByteTokenizer:
    """Return a tokenizer as it is.

    Raises:
        UserError: when it loses bytes of a text, or a text may have the token that begins one.
    """
    plain = replace(tokenizer, chat=False)
    if task.start in chats.MARKS or tokenizer.start in plain.encode([task.start])[0][1:]:
        raise UserError(f"task.start: is {task.start!r}, which texts or messages contain too; name a separate token")
    for probe, numbers in zip(PROBES, plain.encode(PROBES), strict=True):
        if plain.byte_lengths[numbers].sum() != len(probe.encode()):
            raise UserError(
                f"task.tokenizer: {task.tokenizer} loses or adds bytes of {probe!r}; name one of all 256 bytes without "
                "a normalizer or a prefix space"
            )
    return tokenizer


def open_tokenizer(uri: str, model: ModelPackage) -> ByteTokenizer:
    """Return the tokenizer of the model at a URI.

    Raises:
        UserError: when its bytes are not those that the manifest names, or it is a model of another task.
    """
    preprocessing = model.preprocessing_as(LanguagePreprocessing)
    content = read_tokenizer(uri, model)
    return ByteTokenizer(content, preprocessing.start, preprocessing.vocabulary, preprocessing.chat)


@lru_cache(maxsize=4)
def build_bytes_tokenizer(start: str) -> bytes:
    """Return the `tokenizer.json` whose tokens are the 256 bytes, and the marks of texts and messages."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = _build_library(models.BPE(vocab={byte: number for number, byte in enumerate(alphabet)}, merges=[]))
    library.add_special_tokens([start, *chats.MARKS])
    return library.to_str().encode()


def train_tokenizer(texts: Iterable[str], vocabulary: int, start: str) -> bytes:
    """Train a byte-level BPE on texts and return its `tokenizer.json`.

    Args:
        texts: training texts.
        vocabulary: vocabulary size: bytes, special tokens and learned tokens.
        start: token that begins a text.

    Raises:
        UserError: when there are too few numbers for the bytes.
    """
    if vocabulary < LEAST:
        raise UserError(f"--vocabulary: is {vocabulary}; bytes and special tokens need {LEAST}")
    library = _build_library(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[start, *chats.MARKS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer)
    return library.to_str().encode()


def _build_library(model: models.BPE) -> Library:
    library = Library(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library


@lru_cache(maxsize=4)
def _library(content: bytes) -> Library:
    """Return the library's tokenizer, to which the marks that a text may spell are text.

    Raises:
        ValueError: when the file is none, or its tokens are no bytes.
    """
    try:
        library = Library.from_buffer(content)
    except Exception as error:  # the library raises no class of its own
        raise ValueError(str(error)) from None
    if (json.loads(content).get("decoder") or {}).get("type") != "ByteLevel":
        raise ValueError("its tokens are not bytes, since its decoder is not ByteLevel")
    library.no_padding()
    library.no_truncation()
    library.encode_special_tokens = True
    return library
