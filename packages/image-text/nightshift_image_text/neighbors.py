"""The pairs that a model finds: indexes of reports and of images, with who they are, in files of its package.

An image finds reports, and a report finds images. Files are made by the optimization step of the graph that is served,
so that a model's embeddings and its indexes are of one version.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.artifact import Artifact
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data.splits import Days
from nightshift.items.scorer import AT_ONCE
from nightshift.items.shards import ItemTable
from nightshift.models.graph import Graph
from nightshift.models.tensors import by_name, concatenate
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log
from nightshift_image_text import index
from nightshift_image_text.index import IndexDescription, VectorIndex, Vectors

IMAGE_EMBEDDING, TEXT_EMBEDDING = "image_embedding", "text_embedding"
REPORTS, IMAGES = "reports", "images"
# what an embedding finds: an image reports, a report images
FINDS = {IMAGE_EMBEDDING: REPORTS, TEXT_EMBEDDING: IMAGES}
MANIFEST = "indexes.json"
MOST = 100_000  # pairs, the newest of the training window


class IndexManifest(Artifact):
    """The indexes of a package."""

    indexes: dict[str, IndexDescription] = Field(description="`reports` and `images` -> how each was made")


@dataclass(frozen=True)
class Gallery:
    """Rows that are found by embeddings.

    Attributes:
        vectors: index of the rows' embeddings.
        rows: what is shown of each: `id` and, of reports, `report`.
    """

    vectors: VectorIndex
    rows: list[dict[str, str]]

    def find(self, embeddings: Vectors, nearest: int) -> list[list[dict[str, Any]]]:
        """Return the nearest rows of each embedding, (n, width), the nearest first, with their cosine `similarity`."""
        neighbors = self.vectors.search(embeddings, nearest)
        return [
            [
                self.rows[key] | {"similarity": similarity}
                for key, similarity in zip(keys, np.round(similarities.astype(float), 6).tolist(), strict=True)
            ]
            for keys, similarities in zip(neighbors.keys.tolist(), neighbors.similarities, strict=True)
        ]


def make_files(table: Table, uri: str, model: ModelPackage, form: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Make the indexes of the newest pairs that a model was trained on; name and content of each file.

    Args:
        table: features by day, whose rows have the reports.
        uri: folder of the model.
        model: its manifest.
        form: the graph that is served; None: the selected candidate's.
    """
    train = model.lineage.train
    items = ItemTable.read(table, Days(train.first, train.last))
    pairs = items.rows.iloc[-MOST:]
    graph = Graph(package.read_graph(uri, model, model.selected) if form is None else form)
    batches = (pairs.iloc[first : first + AT_ONCE] for first in range(0, len(pairs), AT_ONCE))
    outputs = (IMAGE_EMBEDDING, TEXT_EMBEDDING)
    embeddings = concatenate([graph.run(outputs, by_name(items.inputs(batch))) for batch in batches])
    yield from index_pairs(pairs, embeddings[IMAGE_EMBEDDING], embeddings[TEXT_EMBEDDING])


def index_pairs(pairs: pd.DataFrame, images: Vectors, reports: Vectors) -> Iterator[tuple[str, bytes]]:
    """Make the files of pairs: an index and a table each of images and of reports, and the manifest.

    Args:
        pairs: `event_id`, `report` and, if there are any, `study`; n rows.
        images: embeddings of their images, (n, width).
        reports: embeddings of their reports, (n, width); the same words are found once, by their first study.
    """
    first = ~pairs["report"].duplicated().to_numpy()
    studies = pairs["study"].fillna(pairs["event_id"]) if "study" in pairs else pairs["event_id"]
    tables = {
        REPORTS: pd.DataFrame({"id": studies[first].astype(str), "report": pairs["report"][first].astype(str)}),
        IMAGES: pd.DataFrame({"id": pairs["event_id"].astype(str)}),
    }
    sides = {REPORTS: (reports[first], images), IMAGES: (images, reports[first])}
    descriptions = {}
    for name, (vectors, queries) in sides.items():
        content, descriptions[name] = index.build(vectors, queries)
        log.info("index of %s: %s", name, descriptions[name].model_dump_json())
        yield f"{name}.usearch", content
        yield f"{name}.parquet", _write_table(tables[name])
    yield MANIFEST, IndexManifest(indexes=descriptions).model_dump_json(indent=2).encode()


def load(uri: str, model: ModelPackage) -> Mapping[str, Gallery]:
    """Open the indexes of the model at a URI: `reports` and `images`; none where it has no such files.

    Raises:
        UserError: when a file is not the one that the manifest names, or holds other rows than it says.
    """
    if MANIFEST not in model.answer_files:
        return {}
    manifest = IndexManifest.parse_record(bytes(package.map_file(uri, model, MANIFEST)), storage.join(uri, MANIFEST))
    return {name: _open(uri, model, name, description) for name, description in manifest.indexes.items()}


def _open(uri: str, model: ModelPackage, name: str, description: IndexDescription) -> Gallery:
    rows = read_table(bytes(package.map_file(uri, model, f"{name}.parquet")))
    if len(rows) != description.rows:
        raise UserError(
            f"{storage.join(uri, f'{name}.parquet')} has {len(rows)} rows, and the index beside it {description.rows} "
            "vectors; train again"
        )
    return Gallery(VectorIndex(package.map_file(uri, model, f"{name}.usearch"), description), rows)


def read_table(content: bytes) -> list[dict[str, str]]:
    """Return the rows of a gallery's Parquet file, which holds texts only."""
    return [{str(name): str(value) for name, value in row.items()} for row in _read_rows(content)]


def _read_rows(content: bytes) -> list[dict[Hashable, Any]]:
    return pd.read_parquet(BytesIO(content)).to_dict("records")


def _write_table(table: pd.DataFrame) -> bytes:
    content = BytesIO()
    table.to_parquet(content, index=False)
    return content.getvalue()
