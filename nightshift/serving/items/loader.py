"""Loads the item schema of a model from its task."""

from nightshift import kinds
from nightshift.contracts.package import ModelPackage
from nightshift.serving.items.schema import ItemSchema


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
