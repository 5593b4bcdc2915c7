"""The items of a model, which its task knows."""

from nightshift import kinds
from nightshift.contracts.package import ModelPackage
from nightshift.serving.items.base import Items


def of(model: ModelPackage, uri: str) -> Items:
    """Return the items of a model whose rows are images, texts or the like, which lies at a URI.

    Raises:
        UserError: when its rows have columns, or its files are not those of its manifest.
    """
    items: Items = kinds.find(model.kind).module("items").items(model, uri)
    return items
