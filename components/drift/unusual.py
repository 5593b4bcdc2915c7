"""The newest images that are least like those before, and for comparison those that are most like them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from components.classes import drawn
from components.classes.shards import Array
from components.common.contracts.section import Block, Pictures
from components.drift import embeddings
from components.drift.classes import PREDICTED
from components.drift.embeddings import Floats

SHOWN = 6


def pictures(rows: pd.DataFrame, pixels: Array, seen: tuple[Floats, Floats]) -> list[Block]:
    """Return the least and the most usual images, by what novelty goes by.

    Args:
        rows: `event_id` and `predicted` of the images with an embedding, indexed by their numbers among all.
        pixels: of all images of the day, uint8 (n, side, side, channels).
        seen: embeddings of the reference, (m, width), and of the rows.
    """
    reference, (newest,) = embeddings.standardized(seen[0], [seen[1]])
    usual_first = rows.iloc[np.argsort(embeddings.distances(newest, reference), kind="stable")]
    ranked = {
        "Images of the newest day that are least like the reference": usual_first[::-1][:SHOWN],
        "Those that are most like it": usual_first[:SHOWN],
    }
    return [_pictures(title, found, pixels[found.index.to_numpy()]) for title, found in ranked.items()]


def _pictures(title: str, rows: pd.DataFrame, images: Sequence[Array]) -> Pictures:
    pictures = [
        drawn.picture(drawn.enlarged(pixels), f"taken for {name}", str(event))
        for pixels, event, name in zip(images, rows["event_id"], rows[PREDICTED], strict=True)
    ]
    return Pictures(title=title, pictures=pictures)
