"""Image files: as they are in a body or a tensor, in base64 in JSON."""

from base64 import b64decode, b64encode
from functools import partial
from typing import Any

from nightshift.contracts.package import ModelPackage
from nightshift.contracts.preprocessing import ImagePreprocessing
from nightshift.items import images
from nightshift.items.images import Pixels, UnusableError
from nightshift.serving.items.schema import ItemError, ItemField, ItemSchema

ENCODED = {"type": "string", "contentEncoding": "base64", "minLength": 1}
WRAPPED = {"type": "object", "properties": {"b64": ENCODED}, "required": ["b64"], "additionalProperties": False}
ALLOWED = {
    "empty": "an image file",
    "undecodable": "a whole file of the formats " + ", ".join(images.FORMATS),
    "decompression_bomb": "width times height up to {max_pixels:,} pixels",
    "animated": "one frame",
    "wrong_mode": "gray or RGB, 8 bits a channel, not transparent",
    "too_small": "at least {min_side} pixels a side",
}


def items(model: ModelPackage, _: str) -> ItemSchema:
    """Return what is said of the images of a package.

    Raises:
        UserError: when it is a model of another task.
    """
    preprocessing = model.preprocessing_as(ImagePreprocessing)
    field = ItemField(
        name=preprocessing.item,
        limit=256,
        # SageMaker's clients say `application/x-image`
        content_types=("image/", "application/x-image", "application/octet-stream"),
        schema={"oneOf": [ENCODED, WRAPPED]},
        parse=_content,
        format=lambda content: b64encode(content).decode(),
        decode=partial(_prepare, preprocessing),
        media_type=images.media_type,
    )
    return ItemSchema(preprocessing.classes, (field,), model.decision.thresholds)


def _content(value: Any) -> bytes:
    """Return the bytes of base64, which Vertex AI's clients send as `{"b64": ...}`."""
    text = value["b64"] if isinstance(value, dict) and set(value) == {"b64"} else value
    try:
        return b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise ItemError("not base64", 'the bytes of an image file in base64, or {"b64": ...}') from None


def _prepare(preprocessing: ImagePreprocessing, content: bytes) -> Pixels:
    if not content:
        raise _unusable(preprocessing, "empty")
    try:
        return images.prepare_pixels(content, preprocessing)
    except UnusableError as error:
        raise _unusable(preprocessing, str(error)) from None


def _unusable(preprocessing: ImagePreprocessing, rule: str) -> ItemError:
    return ItemError(rule, ALLOWED[rule].format(min_side=preprocessing.min_side, max_pixels=preprocessing.max_pixels))
