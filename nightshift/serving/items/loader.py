"""Loads the item schema of a model from its task, and what its items are answered with besides scores."""

from nightshift import kinds
from nightshift.contracts.package import ModelPackage
from nightshift.serving.items.schema import ItemAnswers, ItemSchema


def load_schema(model: ModelPackage, uri: str) -> ItemSchema:
    """Return the item schema of a model whose rows are items, such as images or texts.

    Args:
        model: its manifest.
        uri: folder of its files.

    Raises:
        UserError: when its rows have columns, or its files differ from its manifest.
    """
    schema: ItemSchema = kinds.find(model.kind).module("items").items(model, uri)
    return schema


def load_answers(model: ModelPackage, uri: str) -> ItemAnswers | None:
    """Return what a model's items are answered with besides scores and outputs of its graphs; None: nothing.

    Raises:
        UserError: when its files differ from its manifest.
    """
    module = kinds.find(model.kind).find_module("answers")
    return module.answers(model, uri) if module else None
