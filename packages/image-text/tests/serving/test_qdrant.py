"""A gallery in Qdrant is asked as its API's reference says, and its manifests are Kubernetes'; no Qdrant has run."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import numpy as np
import pytest
import yaml

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_image_text import qdrant
from nightshift_image_text.qdrant import QdrantGallery

VECTORS = np.eye(3, dtype=np.float32)
ROWS = [{"id": str(row)} for row in range(3)]
MANIFESTS = Path(__file__).parents[2] / "qdrant" / "qdrant.yaml"


class Qdrant:
    """Keeps points by collection, and answers searches exactly."""

    def __init__(self) -> None:
        self.points: dict[str, dict[int, Any]] = {}
        self.paths: list[str] = []

    def send(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        self.paths.append(f"{method} {path}")
        _, _, name, *rest = path.partition("?")[0].split("/")
        content = json.loads(body) if body else {}
        return 200, json.dumps({"result": self.answer(method, name, rest, content), "status": "ok"}).encode()

    def answer(self, method: str, name: str, rest: list[str], content: Any) -> Any:
        match method, rest:
            case "GET", ["exists"]:
                return {"exists": name in self.points}
            case "PUT", []:
                assert content == {"vectors": {"size": 3, "distance": "Dot"}}
                self.points[name] = {}
            case "PUT", ["points"]:
                self.points[name] |= {point["id"]: point for point in content["points"]}
            case "POST", ["points", "query", "batch"]:
                return [{"points": self.search(name, search)} for search in content["searches"]]
        return True

    def search(self, name: str, search: Any) -> list[Any]:
        points = [
            {"id": point["id"], "score": float(np.dot(point["vector"], search["query"])), "payload": point["payload"]}
            for point in self.points[name].values()
        ]
        return sorted(points, key=lambda point: -point["score"])[: search["limit"]]


def test_rows_are_sent_in_parts_and_found_by_the_nearest_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant, "AT_ONCE", 2)
    server = Qdrant()
    gallery = QdrantGallery(qdrant.name_collection("scans", "images", "a" * 64), server.send)
    gallery.upload(VECTORS, ROWS)
    gallery.upload(VECTORS, ROWS)  # once more: nothing is there twice
    assert list(server.points) == ["scans-images-aaaaaaaaaaaaaaaa"]
    assert server.paths.count("PUT /collections/scans-images-aaaaaaaaaaaaaaaa/points?wait=true") == 4
    nearest = gallery.find(np.float32([[0, 1, 0.5], [1, 0, 0]]), 2)
    assert nearest[0] == [{"id": "1", "similarity": 1.0}, {"id": "2", "similarity": 0.5}]
    assert nearest[1][0] == {"id": "0", "similarity": 1.0}


@pytest.mark.parametrize(
    ("status", "error", "message"), [(503, UnavailableError, "with 503"), (401, UserError, "with 401: no key; check")]
)
def test_a_refusal_is_the_users_and_a_failure_is_the_servers(status, error, message) -> None:
    with pytest.raises(error, match=message):
        QdrantGallery("c", lambda *_: (status, b"no key")).find(VECTORS, 1)


def test_an_engine_that_does_not_answer_is_said_to_be_down() -> None:
    def send(*_: object) -> tuple[int, bytes]:
        raise ConnectionRefusedError("refused")

    with pytest.raises(UnavailableError, match="does not answer"):
        QdrantGallery("c", send).find(VECTORS, 1)


def test_the_manifests_are_of_kubernetes_schema() -> None:
    manifests = list(yaml.safe_load_all(MANIFESTS.read_text()))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.34", strict=True)
    assert [manifest["kind"] for manifest in manifests] == ["Service", "StatefulSet", "PodDisruptionBudget"]
