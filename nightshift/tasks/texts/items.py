"""Texts: in UTF-8 in a body or a tensor, as they are in JSON."""

from functools import partial
from typing import Any

from nightshift.classification import texts, tokens
from nightshift.classification.shards import Array
from nightshift.classification.tokens import Tokenizer
from nightshift.contracts.package import ModelPackage, read_tokenizer
from nightshift.contracts.preprocessing import TextPreprocessing
from nightshift.serving.items.schema import ItemError, ItemField, ItemSchema


def items(model: ModelPackage, uri: str) -> ItemSchema:
    """Return what is said of the texts of a package that lies at a URI.

    Raises:
        UserError: when it is a model of another task, or its tokenizer is not the one that its manifest names.
    """
    preprocessing, content = model.preprocessing_as(TextPreprocessing), read_tokenizer(uri, model)
    field = ItemField(
        name=preprocessing.item,
        limit=preprocessing.vocabulary,
        content_types=("text/",),
        schema={"type": "string", "minLength": 1},
        parse=_content,
        format=bytes.decode,
        decode=partial(_encode, Tokenizer(content, preprocessing.vocabulary, preprocessing.pad), preprocessing.length),
        media_type=lambda _: "text/plain",
    )
    return ItemSchema(preprocessing.classes, (field,))


def _content(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ItemError(str(value)[:100], "a text")
    return value.encode(errors="surrogatepass")


def _encode(tokenizer: Tokenizer, length: int, content: bytes) -> Array:
    try:
        text = content.decode(texts.ENCODING)
    except UnicodeDecodeError:
        raise ItemError("invalid_utf8", "a text in UTF-8") from None
    if rule := texts.fault(text):
        raise ItemError(rule, "a text with something to see, without NUL characters")
    numbers: Array = tokens.encode_texts(tokenizer, length, [text])[0]
    return numbers
