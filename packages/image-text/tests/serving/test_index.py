"""An index finds what an exact search finds, to a stated share, and is the one that the model's manifest names."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nightshift import storage
from nightshift.contracts import package, tables
from nightshift.contracts.tables import Table
from nightshift.items import shards
from nightshift.runtime.errors import UserError
from nightshift_image_text import index, neighbors
from nightshift_image_text.index import VectorIndex
from nightshift_image_text.neighbors import IndexManifest

RANDOM = np.random.default_rng(0)


def unit(rows: int, width: int = 8) -> np.ndarray:
    vectors = RANDOM.normal(size=(rows, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


VECTORS, QUERIES = unit(600), unit(50)
CONTENT, DESCRIPTION = index.build(VECTORS, QUERIES)


def test_the_search_is_as_wide_as_the_stated_recall_demands() -> None:
    vectors, queries = unit(2000, 64), unit(100, 64)
    _, little = index.build(vectors, queries, recall=0.5)
    content, much = index.build(vectors, queries, recall=0.999)
    assert little.expansion_search == index.FIRST_EXPANSION < much.expansion_search
    assert little.recall < 0.999 <= much.recall
    keys = VectorIndex(content, much).search(queries, index.NEAREST).keys
    assert index.measure_recall(keys, index.find_exact(vectors, queries, index.NEAREST)) == much.recall


def test_neighbors_are_the_nearest_first_with_their_cosines() -> None:
    neighbors_of = VectorIndex(CONTENT, DESCRIPTION).search(QUERIES, 4)
    similarities = QUERIES @ VECTORS.T
    assert neighbors_of.keys.tolist() == np.argsort(-similarities, axis=1)[:, :4].tolist()
    assert neighbors_of.similarities == pytest.approx(-np.sort(-similarities, axis=1)[:, :4], abs=1e-5)


def test_equal_vectors_give_equal_bytes() -> None:
    assert index.build(VECTORS, QUERIES) == (CONTENT, DESCRIPTION)


@pytest.mark.parametrize("rows", [1, 3])
def test_an_index_of_fewer_rows_than_are_asked_for_gives_all(rows) -> None:
    content, description = index.build(VECTORS[:rows], QUERIES)
    assert (description.nearest, description.recall) == (rows, 1.0)
    assert VectorIndex(content, description).search(QUERIES[:2], 5).keys.shape == (2, rows)


@pytest.mark.parametrize("change", [{"rows": 599}, {"width": 9}])
def test_an_index_of_other_sizes_than_its_description_is_refused(change) -> None:
    with pytest.raises(UserError, match="and its description of"):
        VectorIndex(CONTENT, DESCRIPTION.model_copy(update=change))


def test_a_package_says_how_its_indexes_were_made_and_maps_them(uri, model) -> None:
    manifest = IndexManifest.read(storage.join(uri, neighbors.MANIFEST))
    assert {name: part.rows for name, part in manifest.indexes.items()} == {"reports": 20, "images": 20}
    assert all(part.recall >= index.RECALL for part in manifest.indexes.values())
    assert set(model.answer_files) == {
        "reports.usearch", "reports.parquet", "images.usearch", "images.parquet", "indexes.json",
    }  # fmt: skip
    assert set(neighbors.load(uri, model)) == {"reports", "images"}
    assert neighbors.load(uri, model.model_copy(update={"answer_files": []})) == {}


@pytest.mark.parametrize("name", ["reports.usearch", "images.parquet", "indexes.json"])
def test_a_file_of_an_index_that_is_cut_or_changed_is_refused(uri, tmp_path: Path, name) -> None:
    package.copy(uri, str(tmp_path))
    content = (tmp_path / name).read_bytes()
    for wrong in (content[:-1], bytes([content[0] ^ 1]) + content[1:]):
        (tmp_path / name).write_bytes(wrong)
        with pytest.raises(UserError, match=r"is not the file that model\.json names"):
            neighbors.load(str(tmp_path), package.load(str(tmp_path)))


def test_reports_with_the_same_words_are_found_once_and_without_a_study_by_their_event() -> None:
    rows = pd.DataFrame(
        {"event_id": ["a", "b", "c"], "study": ["s", None, None], "report": ["clear", "clear", "a nodule"]}
    )
    files = dict(neighbors.index_pairs(rows, VECTORS[:3], VECTORS[3:6]))
    manifest = IndexManifest.model_validate_json(files[neighbors.MANIFEST])
    assert {name: part.rows for name, part in manifest.indexes.items()} == {"reports": 2, "images": 3}
    reports = neighbors.read_table(files["reports.parquet"])
    assert reports == [{"id": "s", "report": "clear"}, {"id": "c", "report": "a nodule"}]


def test_the_night_indexes_the_newest_pairs_of_the_training_days_by_the_graph_that_is_served(
    pairs: Any, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbors, "MOST", 12)
    seen = np.empty(20, [("pixels", np.uint8, pairs.pixels.shape[1:]), ("tokens", np.int32, pairs.tokens.shape[1:])])
    seen["pixels"], seen["tokens"] = pairs.pixels, pairs.tokens
    rows = pd.DataFrame({"event_id": [f"e{row}" for row in range(20)], "report": pairs.reports})
    parts = []
    for day, here in ((date(2024, 3, 15), slice(10)), (date(2024, 3, 16), slice(10, 20))):
        part = str(tmp_path / f"{day}.parquet")
        np.save(shards.shard_uri(part), seen[here])
        parts.append(tables.write_partition(part, day, rows[here], {}))
    table, model = Table("features", parts), package.load(uri)
    files = dict(neighbors.make_files(table, uri, model, None))
    assert [row["id"] for row in neighbors.read_table(files["images.parquet"])] == [f"e{row}" for row in range(8, 20)]
    description = IndexManifest.model_validate_json(files[neighbors.MANIFEST]).indexes["images"]
    own = VectorIndex(files["images.usearch"], description).search(pairs.expect(uri)["image_embedding"][8:], 1)
    assert own.keys.ravel().tolist() == list(range(12))
