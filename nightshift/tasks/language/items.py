"""Texts of requests, as rows of tokens; a longer text is scored by its first row."""

from nightshift.classification.shards import Array
from nightshift.contracts.package import ModelPackage, read_tokenizer
from nightshift.contracts.preprocessing import LanguagePreprocessing
from nightshift.serving.items.schema import ItemSchema
from nightshift.tasks.language import documents
from nightshift.tasks.language.tokens import ByteTokenizer
from nightshift.tasks.texts.items import text_field


def items(model: ModelPackage, uri: str) -> ItemSchema:
    """Return what is said of the texts of a package that lies at a URI.

    Raises:
        UserError: when it is a model of another task, or its tokenizer is not the one that its manifest names.
    """
    preprocessing = model.preprocessing_as(LanguagePreprocessing)
    tokenizer = ByteTokenizer(read_tokenizer(uri, model), preprocessing.start, preprocessing.vocabulary)

    def encode(text: str) -> Array:
        (document,) = tokenizer.encode([text])
        first: Array = documents.cut_rows([document[: preprocessing.length + 1]], preprocessing)[0][0]
        return first

    return ItemSchema((), (text_field(preprocessing, encode),))
