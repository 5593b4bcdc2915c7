"""From an image and a report to a model's inputs."""

from typing import Literal

from pydantic import Field

from nightshift.contracts.preprocessing import ClassPreprocessing, TokenizedPreprocessing


class ImageTextPreprocessing(TokenizedPreprocessing, ClassPreprocessing):
    """From an image file to `pixels`, from a report to `tokens`; see `nightshift/items/images.py` and `tokens.py`."""

    SEEN = frozenset({"side", "channels", "length", "vocabulary", "tokenizer_sha256"})
    scope = "images with reports"
    item = "image"
    kind: Literal["image-text"] = "image-text"
    side: int = Field(description="pixels of the square that is cut from the middle of an image and resized")
    channels: int = Field(description="1: gray, 3: RGB")
    min_side: int = Field(description="pixels of the shorter side, below which an image is refused")
    max_pixels: int = Field(description="width times height, above which an image is refused before it is decoded")
    pad: int = Field(description="the number that fills reports up, and counts for nothing")
