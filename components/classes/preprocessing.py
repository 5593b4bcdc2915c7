"""How a config says that images or texts become a model's input: what features are made with, and a package keeps."""

from components.classes import tokens
from components.common.config.classes import Images, Texts
from components.common.contracts import package

TOKENIZER = "tokenizer.json"  # in the package


def of(task: Images | Texts) -> package.Images | package.Texts:
    """Return how a task's images or texts become the graphs' input.

    Raises:
        UserError: when the tokenizer cannot be read.
    """
    return _of_images(task) if isinstance(task, Images) else _of_texts(task)


def _of_images(task: Images) -> package.Images:
    return package.Images(
        classes=task.classes,
        side=task.side,
        channels=task.channels,
        min_side=task.min_side,
        max_pixels=task.max_pixels,
    )


def _of_texts(task: Texts) -> package.Texts:
    tokenizer = tokens.named(task)
    return package.Texts(
        classes=task.classes,
        length=task.length,
        tokenizer=TOKENIZER if tokenizer.content else None,
        vocabulary=tokenizer.vocabulary,
        pad=tokenizer.pad,
        tokenizer_sha256=tokenizer.sha256,
    )
