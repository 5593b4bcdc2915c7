"""`nightshift ui` on a workspace in an object store, over real HTTP."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nightshift import storage
from nightshift.contracts.state import ROOTS, State
from nightshift_testkit import gcs, s3
from nightshift_testkit.week import DAYS, NAME, WrittenNight, write_week
from pipelines.ui.app import build_app
from pipelines.workspace import Workspace
from tests.pipelines.ui.conftest import HERE

RUN = WrittenNight(Path(), len(DAYS)).name("training")
COPIED = ("runs", "lake")
PATHS = {
    "/": "scoring failed in ingestion",
    "/runs": RUN,
    f"/runs/{RUN}/report": "Version 7 was refused",
    f"/models/{NAME}": "2026-11-27 02:25",
    f"/models/{NAME}/7": "average precision 0.61 lies below",
    f"/drift/{NAME}": "terminal_count_7d",
    "/costs": "13.01",
    f"/events/{NAME}?column=customer&id=4711": "Searched 7 days",
}


@contextmanager
def serve_s3() -> Iterator[None]:
    with s3.bucket() as url, s3.reached_at(url):
        yield


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "bucket"), [("s3", serve_s3), ("gs", gcs.bucket)])
def test_every_kind_of_page_is_read_from_a_store(
    scheme: str, bucket: Callable[[], AbstractContextManager[Any]], tmp_path: Path
) -> None:
    write_week(tmp_path)
    with bucket():
        for file in filter(Path.is_file, (path for root in COPIED for path in (tmp_path / root).rglob("*"))):
            storage.write_bytes(f"{scheme}://lake/ws/{file.relative_to(tmp_path)}", file.read_bytes())
        # versions are in a folder or on a tracking server
        roots = {root: f"{scheme}://lake/ws/{root}" for root in ROOTS} | {"registry": str(tmp_path / "registry")}
        client = TestClient(build_app(Workspace(State.from_mapping({**roots, "target": "record-only"}))), base_url=HERE)
        answers = {path: client.get(path) for path in PATHS}

    assert {path: answer.text for path, answer in answers.items() if answer.status_code != 200} == {}
    assert [path for path, text in PATHS.items() if text not in answers[path].text] == []
