"""Which tasks have items."""

from nightshift.contracts.package import ModelPackage, read_tokenizer
from nightshift.contracts.preprocessing import Texts
from nightshift.serving.items import images, texts
from nightshift.serving.items.base import Items


def of(model: ModelPackage, uri: str) -> Items:
    """Return the items of a model of images or texts, which lies at a URI.

    Raises:
        UserError: when it is a model of tables, or its files are not those of its manifest.
    """
    made = model.classes
    return texts.items(made, read_tokenizer(uri, model)) if isinstance(made, Texts) else images.items(made)
