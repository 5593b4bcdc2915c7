"""Images and reports of requests: either may be absent, and each finds what is near it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from nightshift.contracts.package import ModelPackage, read_tokenizer
from nightshift.items.tokens import Tokenizer
from nightshift.models.tensors import Tensors, row_count
from nightshift.serving.items.schema import ItemAnswers, ItemSchema
from nightshift.tasks.images.items import build_image_field
from nightshift.tasks.texts.items import build_text_field, encode_text
from nightshift_image_text import neighbors
from nightshift_image_text.neighbors import FINDS, REPORTS, Gallery
from nightshift_image_text.preprocessing import ImageTextPreprocessing

IMAGE, REPORT = "image", "report"  # columns of the lake
PIXELS, TOKENS = "pixels", "tokens"  # inputs of the graphs
NEAREST = 5  # of an answer


@dataclass(frozen=True)
class NearestPairs(ItemAnswers):
    """The reports that an image finds, and the images that a report finds.

    Attributes:
        galleries: `reports` and `images`, of the model's own version; none where it has no indexes.
    """

    galleries: Mapping[str, Gallery]

    @property
    def schema(self) -> Mapping[str, Mapping[str, Any]]:
        return {_name(gallery): _describe_rows(gallery) for gallery in self.galleries}

    def list_names(self, outputs: Collection[str]) -> list[str]:
        return [_name(gallery) for embedding, gallery in self._list_found(outputs)]

    def describe(self, outputs: Tensors) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = [{} for _ in range(row_count(outputs))]
        for embedding, gallery in self._list_found(outputs):
            nearest = self.galleries[gallery].find(outputs[embedding], NEAREST)
            for answer, rows in zip(answers, nearest, strict=True):
                answer[_name(gallery)] = rows
        return answers

    def _list_found(self, outputs: Collection[str]) -> list[tuple[str, str]]:
        return [(name, gallery) for name, gallery in FINDS.items() if name in outputs and gallery in self.galleries]


def items(model: ModelPackage, uri: str) -> ItemSchema:
    """Return what is said of the images and reports of a package that lies at a URI.

    Raises:
        UserError: when it is a model of another task, or its files are not those that its manifest names.
    """
    preprocessing = model.preprocessing_as(ImageTextPreprocessing)
    tokenizer = Tokenizer(read_tokenizer(uri, model), preprocessing.vocabulary, preprocessing.pad)
    encode = partial(encode_text, tokenizer, preprocessing.length)
    return ItemSchema(
        preprocessing.classes,
        (
            build_image_field(IMAGE, preprocessing, PIXELS),
            build_text_field(REPORT, preprocessing.limit, encode, TOKENS),
        ),
        model.decision.thresholds,
        is_partial=bool(model.signature.graphs),
        answers=NearestPairs(neighbors.load(uri, model)),
        known_by=PIXELS,
    )


def _name(gallery: str) -> str:
    return f"nearest_{gallery}"


def _describe_rows(gallery: str) -> dict[str, Any]:
    texts = ["id", "report"] if gallery == REPORTS else ["id"]
    properties = {**{name: {"type": "string"} for name in texts}, "similarity": {"type": "number"}}
    row = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "array", "items": row, "minItems": 1, "maxItems": NEAREST}
