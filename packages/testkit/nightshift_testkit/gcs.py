"""A small Google Cloud Storage: its JSON API with generations, over real HTTP."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import fsspec
import pytest

# read when gcsfs is imported; the client of new kinds of buckets would ask Google
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


class BucketStore(ThreadingHTTPServer):
    """Objects with their generations.

    Attributes:
        failures: statuses that the next uploads are answered with; `lost` ones are stored all the same.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), GcsHandler)
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.lock = Lock()
        self.newest = 0
        self.failures: list[int] = []
        self.lost = False


@contextmanager
def bucket() -> Iterator[BucketStore]:
    """Serve it, and let gs:// be it in this process."""
    store = BucketStore()
    Thread(target=store.serve_forever, daemon=True).start()
    options = {"token": "anon", "endpoint_url": f"http://127.0.0.1:{store.server_port}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fsspec.config.conf, "gs", options)
        yield store
    store.shutdown()
    store.server_close()


class GcsHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one packet: two would wait for each other's acknowledgment
    server: BucketStore

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.endswith("/o"):
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            self._answer(200, json.dumps(self._list(query.get("prefix", ""), query.get("delimiter"))).encode())
            return
        stored = self.server.objects.get(unquote(url.path.split("/o/", 1)[-1]))
        if stored is None:
            self._answer(404, b"{}")
        elif url.path.startswith("/download/"):
            self._answer(200, stored[0])
        else:
            self._answer(200, _described(unquote(url.path.split("/o/", 1)[-1]), *stored))

    def _list(self, prefix: str, delimiter: str | None) -> dict[str, Any]:
        """Return the objects below a prefix, and the folders among them where a delimiter ends a name."""
        names = [name for name in self.server.objects if name.startswith(prefix)]
        cuts = {name: name.find(delimiter, len(prefix)) if delimiter else -1 for name in names}
        items = [json.loads(_described(name, *self.server.objects[name])) for name, cut in cuts.items() if cut < 0]
        return {"items": items, "prefixes": sorted({name[: cut + 1] for name, cut in cuts.items() if cut >= 0})}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        failure = self.server.failures.pop(0) if self.server.failures else None
        if failure and not self.server.lost:
            self._answer(failure, b'{"error": {"message": "We are sorry."}}')
            return
        name, content = query.get("name", ""), body
        if query["uploadType"] == "multipart":
            _, described, part = body.split(b"--==0==", 2)
            name = json.loads(described.split(b"\n\n", 1)[1])["name"]
            content = part.split(b"\n\n", 1)[1].removesuffix(b"\n--==0==--")
        with self.server.lock:
            generation = self.server.objects.get(name, (b"", 0))[1]
            is_expected = int(query.get("ifGenerationMatch", generation)) == generation
            if is_expected:
                self.server.newest += 1
                self.server.objects[name] = (content, self.server.newest)
        if failure:
            self._answer(failure, b'{"error": {"message": "We are sorry."}}')
        elif is_expected:
            self._answer(200, _described(name, content, self.server.newest))
        else:
            self._answer(412, b'{"error": {"message": "conditionNotMet"}}')

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _described(name: str, content: bytes, generation: int) -> bytes:
    described = {"bucket": "lake", "name": name, "size": str(len(content)), "generation": str(generation)}
    return json.dumps(described).encode()
