"""Image files: as they are in a body or a tensor, in base64 in JSON."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

from nightshift.contracts.package import INPUT, ModelPackage
from nightshift.contracts.preprocessing import ImagePreprocessing
from nightshift.items import images
from nightshift.items.images import Pixels, Rules, UnusableError
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
    field = build_image_field(preprocessing.item, preprocessing)
    return ItemSchema(preprocessing.classes, (field,), model.decision.thresholds)


def build_image_field(
    name: str, rules: Rules, tensor: str = INPUT, prepare: Callable[[bytes, Rules], Pixels] = images.prepare_pixels
) -> ItemField:
    """Return the field of an item that is an image.

    Args:
        name: of the field.
        rules: what images have to be like, and what networks see of them.
        tensor: name of the graph's input.
        prepare: a file -> what networks see of it; raises `UnusableError`.
    """
    return ItemField(
        name=name,
        limit=256,
        # SageMaker's clients say `application/x-image`
        content_types=("image/", "application/x-image", "application/octet-stream"),
        schema={"oneOf": [ENCODED, WRAPPED]},
        parse=_content,
        format=lambda content: b64encode(content).decode(),
        decode=partial(_prepare, prepare, rules),
        media_type=images.media_type,
        input=tensor,
    )


def _content(value: Any) -> bytes:
    """Return the bytes of base64, which Vertex AI's clients send as `{"b64": ...}`."""
    text = value["b64"] if isinstance(value, dict) and set(value) == {"b64"} else value
    try:
        return b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise ItemError("not base64", 'the bytes of an image file in base64, or {"b64": ...}') from None


def _prepare(prepare: Callable[[bytes, Rules], Pixels], rules: Rules, content: bytes) -> Pixels:
    if not content:
        raise _unusable(rules, "empty")
    try:
        return prepare(content, rules)
    except UnusableError as error:
        raise _unusable(rules, str(error)) from None


def _unusable(rules: Rules, rule: str) -> ItemError:
    allowed = ALLOWED.get(rule, "an image that ingestion does not quarantine by this rule")
    return ItemError(rule, allowed.format(min_side=rules.min_side, max_pixels=rules.max_pixels))
