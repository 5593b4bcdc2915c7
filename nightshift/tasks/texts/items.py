"""Texts: in UTF-8 in a body or a tensor, as they are in JSON."""

from collections.abc import Callable
from typing import Any

from nightshift.contracts.package import ModelPackage, read_tokenizer
from nightshift.contracts.preprocessing import TextPreprocessing, TokenizedPreprocessing
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
    tokenizer = Tokenizer(content, preprocessing.vocabulary, preprocessing.pad)

    def encode(text: str) -> Array:
        numbers: Array = tokens.encode_texts(tokenizer, preprocessing.length, [text])[0]
        return numbers

    field = build_text_field(preprocessing, encode)
    return ItemSchema(preprocessing.classes, (field,), model.decision.thresholds)


def build_text_field(preprocessing: TokenizedPreprocessing, encode: Callable[[str], Array]) -> ItemField:
    """Return the field of an item that is a text.

    Args:
        preprocessing: of the model.
        encode: a text that can be scored -> the graph's input, without the dimension of rows.
    """
    return ItemField(
        name=preprocessing.item,
        limit=preprocessing.limit,
        content_types=("text/",),
        schema={"type": "string", "minLength": 1},
        parse=_content,
        format=bytes.decode,
        decode=lambda content: encode(_read(content)),
        media_type=lambda _: "text/plain",
    )


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
