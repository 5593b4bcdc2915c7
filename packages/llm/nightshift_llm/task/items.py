"""Texts of requests, as rows of tokens; a longer text is scored by its first row."""

from nightshift.contracts.package import ModelPackage
from nightshift.items.shards import Array
from nightshift.serving.items.schema import ItemError, ItemSchema
from nightshift.tasks.texts.items import build_text_field
from nightshift_llm.preprocessing import LanguagePreprocessing
from nightshift_llm.task import chats, documents
from nightshift_llm.task.tokens import open_tokenizer


def items(model: ModelPackage, uri: str) -> ItemSchema:
    """Return the schema of request items for the package at a URI.

    Raises:
        UserError: when it is a model of another task, or its tokenizer is not the one that its manifest names.
    """
    preprocessing, tokenizer = model.preprocessing_as(LanguagePreprocessing), open_tokenizer(uri, model)

    def encode(text: str) -> Array:
        if tokenizer.chat and not chats.parse_chat(text):
            raise ItemError("not_a_chat", chats.FORM)
        (document,) = tokenizer.encode([text])
        first: Array = documents.cut_rows([document[: preprocessing.length + 1]], preprocessing)[0][0]
        if not tokenizer.byte_lengths[first[1:]].any():
            raise ItemError("too_long", f"a chat whose first {preprocessing.length} tokens hold some of an answer")
        return first

    return ItemSchema((), (build_text_field(preprocessing.item, preprocessing.limit, encode),))
