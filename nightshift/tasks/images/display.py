"""How a report shows images."""

import pandas as pd

from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import Block, Pictures
from nightshift.items import drawn
from nightshift.items.images import Pixels
from nightshift.items.scorer import ClassScorer
from nightshift.tasks.classification.mistakes import Answers
from nightshift.tasks.images.mistakes import pictures as mistaken


def show(_: str, __: ModelPackage, title: str, rows: pd.DataFrame, pixels: Pixels) -> Pictures:
    """Show what some images were taken for.

    Args:
        title: of the pictures.
        rows: `event_id` and `predicted`, n rows.
        pixels: what networks see of them, uint8 (n, side, side, channels).
    """
    pictures = [
        drawn.picture(drawn.enlarge(image), f"taken for {name}", str(event))
        for image, event, name in zip(pixels, rows["event_id"], rows["predicted"], strict=True)
    ]
    return Pictures(title=title, pictures=pictures)


def mistakes(uri: str, model: ModelPackage, answers: Answers) -> Block | None:
    """Show the surest mistakes of a model, and which parts of each image decided; None without a mistake."""
    return mistaken(answers, ClassScorer(uri, model).score)
