"""Texts: in UTF-8 in a body or a tensor, as they are in JSON."""

from collections.abc import Callable
from functools import partial
from typing import Any

from nightshift.contracts.package import INPUT, ModelPackage, read_tokenizer
from nightshift.contracts.preprocessing import TextPreprocessing
from nightshift.items import texts, tokens
from nightshift.items.shards import Array
from nightshift.items.tokens import Tokenizer
from nightshift.serving.items.schema import ItemError, ItemField, ItemSchema


def items(model: ModelPackage, uri: str) -> ItemSchema:
    """Return what is said of the texts of a package that lies at a URI.

    Raises:
        UserError: when it is a model of another task, or its tokenizer is not the one that its manifest names.
    """
    preprocessing, content = model.preprocessing_as(TextPreprocessing), read_tokenizer(uri, model)
    encode = partial(encode_text, Tokenizer(content, preprocessing.vocabulary, preprocessing.pad), preprocessing.length)
    field = build_text_field(preprocessing.item, preprocessing.limit, encode)
    return ItemSchema(preprocessing.classes, (field,), model.decision.thresholds)


def build_text_field(name: str, limit: int, encode: Callable[[str], Array], tensor: str = INPUT) -> ItemField:
    """Return the field of an item that is a text.

    Args:
        name: of the field.
        limit: exclusive upper bound of the numbers that a model takes.
        encode: a text that can be scored -> the graph's input, without the dimension of rows.
        tensor: name of the graph's input.
    """
    return ItemField(
        name=name,
        limit=limit,
        content_types=("text/",),
        schema={"type": "string", "minLength": 1},
        parse=_content,
        format=bytes.decode,
        decode=lambda content: encode(_read(content)),
        media_type=lambda _: "text/plain",
        input=tensor,
    )


def encode_text(tokenizer: Tokenizer, length: int, text: str) -> Array:
    """Return the numbers of a text's tokens, int32 (length,)."""
    numbers: Array = tokens.encode_texts(tokenizer, length, [text])[0]
    return numbers


def _content(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ItemError(str(value)[:100], "a text")
    return value.encode(errors="surrogatepass")


def _read(content: bytes) -> str:
    try:
        text = content.decode(texts.ENCODING)
    except UnicodeDecodeError:
        raise ItemError("invalid_utf8", "a text in UTF-8") from None
    if rule := texts.fault(text):
        raise ItemError(rule, "a text with something to see, without NUL characters")
    return text
