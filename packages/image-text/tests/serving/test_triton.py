"""A repository of named graphs: its files, and the real Triton beside our own server."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from nightshift.serving.triton.repository import PublishRequest, publish
from nightshift_testkit import triton

PACKAGE = [*Path(__file__).parents[2].glob("nightshift_image_text*")]  # and its metadata
MODELS = {"scans_image", "scans_text"}


@pytest.fixture(scope="module")
def repository(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("triton") / "models"
    assert publish(folder, uri, PublishRequest("scans", 1)).is_new
    return folder


def test_a_repository_has_each_tower_its_features_their_ensembles_and_one_of_all(repository: Path, uri: str) -> None:
    ends = ("", "_features", "_raw")
    assert {path.name for path in repository.iterdir() if path.is_dir()} == {
        "scans_raw", *(f"{name}{end}" for name in MODELS for end in ends)
    }  # fmt: skip
    image, whole = ((repository / name / "config.pbtxt").read_text() for name in ("scans_image", "scans_raw"))
    assert [line for line in image.splitlines() if line.startswith(("  name:", "  dims:"))] == [
        '  name: "pixels"', "  dims: 8", "  dims: 8", "  dims: 1",
        '  name: "score"', "  dims: 2", '  name: "image_embedding"', "  dims: 4",
        '  name: "rows of zeros: 1"', '  name: "rows of zeros: 1024"',
    ]  # fmt: skip
    assert whole.count("model_name") == 4
    assert not publish(repository, uri, PublishRequest("scans", 1)).is_new
    assert (repository / "scans_image/labels.txt").read_text() == "nodule\neffusion\n"
    assert not (repository / "scans_text/labels.txt").exists()


def ask(url: str, model: str, count: int, **rows: list[bytes]) -> dict[str, np.ndarray]:
    inputs, payload = [], b""
    for name, values in rows.items():
        content = b"".join(len(value).to_bytes(4, "little") + value for value in values)
        size = {"binary_data_size": len(content)}
        inputs.append({"name": name, "datatype": "BYTES", "shape": [count, 1], "parameters": size})
        payload += content
    request = httpx.Request("POST", url, json={"inputs": inputs}).content
    headers = {"inference-header-content-length": str(len(request))}
    answer = httpx.post(f"{url}/v2/models/{model}/infer", content=request + payload, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return {out["name"]: np.reshape(out["data"], out["shape"]) for out in answer.json()["outputs"]}


@pytest.mark.slow
@pytest.mark.xdist_group("triton")
def test_triton_answers_as_our_own_server_does(repository: Path, pairs: Any, url: str) -> None:
    triton.site()
    rows = {"image": pairs.images[:5], "report": [report.encode() for report in pairs.reports[:5]]}
    with triton.serve(repository.parent, repository, PACKAGE) as there:
        for model in ("scans_raw", "scans_image_raw", "scans_text_raw"):
            answer = httpx.post(f"{there}/v2/repository/models/{model}/load", json={}, timeout=60)
            assert answer.status_code == 200, answer.text
        both = ask(there, "scans_raw", 5, **rows)
        alone = ask(there, "scans_image_raw", 5, image=rows["image"])
        alone |= ask(there, "scans_text_raw", 5, report=rows["report"])
        refused = httpx.post(
            f"{there}/v2/models/scans_text_raw/infer",
            json={"inputs": [{"name": "report", "datatype": "BYTES", "shape": [1, 1], "data": [" "]}]},
        )
    instances = [
        {"image": b64encode(image).decode(), "report": report.decode()}
        for image, report in zip(rows["image"], rows["report"], strict=True)
    ]
    ours = httpx.post(f"{url}/score", json={"instances": instances}).json()["predictions"]
    for answer in (both, alone):
        assert answer["score"] == pytest.approx(np.array([[*row["scores"].values()] for row in ours]), abs=1e-5)
        for name in ("image_embedding", "text_embedding"):
            assert answer[name] == pytest.approx(np.array([row[name] for row in ours]), abs=1e-5)
    assert refused.status_code == 400
    assert "report[0]" in refused.text
