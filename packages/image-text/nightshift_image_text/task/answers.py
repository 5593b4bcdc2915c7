"""What an image or a report is answered with besides findings and embeddings: what is near it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nightshift.contracts.package import ModelPackage
from nightshift.models.tensors import Tensors, row_count
from nightshift.serving.items.schema import ItemAnswers
from nightshift_image_text import neighbors
from nightshift_image_text.neighbors import FINDS, REPORTS, Gallery

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


def answers(model: ModelPackage, uri: str) -> NearestPairs:
    """Open what the pairs of a package that lies at a URI are found by.

    Raises:
        UserError: when its files are not those that its manifest names.
    """
    return NearestPairs(neighbors.load(uri, model))


def _name(gallery: str) -> str:
    return f"nearest_{gallery}"


def _describe_rows(gallery: str) -> dict[str, Any]:
    texts = ["id", "report"] if gallery == REPORTS else ["id"]
    properties = {**{name: {"type": "string"} for name in texts}, "similarity": {"type": "number"}}
    row = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "array", "items": row, "minItems": 1, "maxItems": NEAREST}
