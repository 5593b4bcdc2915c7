"""Losses of versions on a day's images, one observation by another."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from nightshift.contracts import package, tables
from nightshift.items import metrics
from nightshift.items.scorer import ClassScorer
from nightshift.items.shards import shard_uri
from nightshift.runtime.errors import UserError
from nightshift.tasks.classification.release import ReleaseTask
from tests.components import pictures

DAY = date(2024, 3, 10)
CLASSES = pictures.CONFIG["task"]["classes"]
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 1), dtype=np.uint8)
LABELS = ["circle", "cross", None, "square", "triangle"]


@pytest.fixture
def uris(tmp_path) -> list[str]:
    return [pictures.model(tmp_path / str(seed), seed) for seed in (1, 2)]


def written(folder, side: int = 16, **columns: list[str]) -> tables.Table:
    uri = str(folder / "day.parquet")
    np.save(shard_uri(uri), PIXELS)
    part = tables.write_partition(uri, DAY, pd.DataFrame({"label": LABELS, **columns}), {})
    return tables.Table("features", [part], {"seen": {"side": side, "channels": 1}})


def expected(uri: str) -> np.ndarray:
    """Of the labeled items."""
    scores = ClassScorer(uri, package.load(uri)).score(PIXELS)[[0, 1, 3, 4]]
    return metrics.half_brier(np.arange(4), scores)


def test_each_labeled_item_is_an_observation_of_every_version(tmp_path, uris) -> None:
    by_version = ReleaseTask().losses(written(tmp_path), DAY, uris)
    assert [observed.tolist() for observed in by_version] == [expected(uri).tolist() for uri in uris]


def test_a_group_is_one_observation(tmp_path, uris) -> None:
    (grouped, _) = ReleaseTask().losses(written(tmp_path, group=["a", "b", "c", "a", "a"]), DAY, uris)
    first = expected(uris[0])
    assert grouped == pytest.approx([first[[0, 2, 3]].mean(), first[1]])


def test_versions_of_other_inputs_are_not_compared(tmp_path, uris) -> None:
    with pytest.raises(UserError, match=r"of .*'side': 8.* takes .*16.*; .*`nightshift release abort`"):
        ReleaseTask().losses(written(tmp_path, side=8), DAY, uris)


def test_slices_are_of_the_same_observations_as_the_losses(tmp_path) -> None:
    table = written(tmp_path, group=["b", "a", "c", "b", "b"], camera=["x", "y", "x", "z", "z"])
    assert ReleaseTask().slices(table, DAY, ["camera"]).to_dict("list") == {"camera": ["x", "y"]}
    with pytest.raises(UserError, match=r"release\.slices\.camra: unknown; .*; did you mean 'camera'"):
        ReleaseTask().slices(table, DAY, ["camra"])
