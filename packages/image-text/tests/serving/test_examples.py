"""A server is asked about the pairs of the newest day in the lake, and answers what the files of its model give."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest

from nightshift import tasks
from nightshift.contracts import tables
from nightshift.contracts.package import ModelPackage
from nightshift.runtime.errors import UserError


@pytest.fixture
def lake(pairs: Any, tmp_path: Path) -> str:
    day = date(2024, 3, 20)
    rows = pd.DataFrame({"image": [b"", *pairs.images[:3]], "report": ["blank", *pairs.reports[:3]]})
    tables.write_partition(tables.partition_uri(str(tmp_path), "scans", "events", day, "0" * 16), day, rows, {})
    return str(tmp_path)


def test_an_example_is_a_whole_pair_that_the_server_scores_as_its_files_do(
    lake: str, url: str, uri: str, model: ModelPackage
) -> None:
    example, body = tasks.find("image-text").examples.from_lake(uri, model, lake, "scans")
    assert set(example.event) == {"image", "report"}
    for content in (json.dumps(example.request), body):
        answer = httpx.post(f"{url}/score", content=content, headers={"content-type": example.media_type}).json()
        (prediction,) = answer.get("predictions", [answer])
        assert prediction["score"] == pytest.approx(example.score, abs=1e-6)


def test_payloads_are_the_pairs_that_can_be_scored_and_pass_through_every_stage(
    lake: str, uri: str, model: ModelPackage
) -> None:
    task = tasks.find("image-text").examples
    payloads = task.payloads(uri, model, lake, "scans", 10)
    assert len(payloads) == 3  # not the one whose image is empty
    value: Any = payloads[0].body
    for stage in task.stages(uri, model, 10).values():
        value = stage(value)
    assert set(json.loads(value.body)) == {"labels", "score", "scores"}


def test_a_lake_without_pairs_is_said_to_have_none(uri: str, model: ModelPackage, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no image and report to ask the endpoint about"):
        tasks.find("image-text").examples.from_lake(uri, model, str(tmp_path / "none"), "scans")
