"""Pairs beyond one machine's memory: a gallery in Qdrant, asked over its HTTP API (v1.14 and later).

A collection is named after the model's identity, so that a version finds pairs of its own embeddings only.
https://api.qdrant.tech/api-reference
"""

import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_image_text.index import Vectors

Answer = tuple[int, bytes]  # status and body
Send = Callable[[str, str, bytes], Answer]  # method, path and body; raises OSError when nobody answers

AT_ONCE = 500  # points of a request


def name_collection(use_case: str, gallery: str, model_sha256: str) -> str:
    """Return the name of the collection of a model's gallery."""
    return f"{use_case}-{gallery}-{model_sha256[:16]}"


class QdrantGallery:
    """Rows that are found by embeddings, as `nightshift_image_text.neighbors.Gallery` finds them."""

    def __init__(self, collection: str, send: Send) -> None:
        """Send nothing yet.

        Args:
            collection: its name.
            send: sends a request, with the API key if there is one.
        """
        self._collection, self._send = collection, send

    def upload(self, vectors: Vectors, rows: Sequence[Mapping[str, str]]) -> None:
        """Make the collection and fill it; the same rows may be sent again.

        Args:
            vectors: unit vectors, (rows, width).
            rows: what is shown of each.

        Raises:
            UserError: when Qdrant refuses the request.
            UnavailableError: when it does not answer, or fails.
        """
        name = f"/collections/{self._collection}"
        if not self._call("GET", f"{name}/exists")["exists"]:
            self._call("PUT", name, {"vectors": {"size": vectors.shape[1], "distance": "Dot"}})
        for first in range(0, len(rows), AT_ONCE):
            points = [
                {"id": number, "vector": vectors[number].tolist(), "payload": dict(rows[number])}
                for number in range(first, min(first + AT_ONCE, len(rows)))
            ]
            self._call("PUT", f"{name}/points?wait=true", {"points": points})

    def find(self, embeddings: Vectors, nearest: int) -> list[list[dict[str, Any]]]:
        """Return the nearest rows of each embedding, (n, width), the nearest first, with their cosine `similarity`.

        Raises:
            UserError: when Qdrant refuses the request.
            UnavailableError: when it does not answer, or fails.
        """
        searches = [{"query": query, "limit": nearest, "with_payload": True} for query in embeddings.tolist()]
        answers = self._call("POST", f"/collections/{self._collection}/points/query/batch", {"searches": searches})
        return [[point["payload"] | {"similarity": point["score"]} for point in search["points"]] for search in answers]

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        try:
            status, body = self._send(method, path, b"" if content is None else json.dumps(content).encode())
        except OSError as error:
            raise UnavailableError(f"Qdrant does not answer ({error}); look at its pods and try again") from None
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise UnavailableError(f"Qdrant answered {method} {path} with {status}; look at its log and try again")
        if status != HTTPStatus.OK:
            reason = body[:200].decode("utf-8", "replace")
            raise UserError(f"Qdrant refused {method} {path} with {status}: {reason}; check its URL, key and version")
        return json.loads(body)["result"]
