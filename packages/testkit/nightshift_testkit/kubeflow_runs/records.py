"""What launchers report: a server in the place of Kubeflow's ML metadata, which keeps what each execution has made."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nightshift_testkit.kubeflow_runs.spec import Json
from nightshift_testkit.servers import serving


class MetadataRecords(ThreadingHTTPServer):
    """`artifacts` holds the artifacts of each execution."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RecordsHandler)
        self.artifacts: dict[str, Json] = {}


class RecordsHandler(BaseHTTPRequestHandler):
    server: MetadataRecords

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self.server.artifacts[self.path.rpartition("/")[2]] = json.loads(content)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def recording() -> Iterator[MetadataRecords]:
    records = MetadataRecords()
    with serving(records):
        yield records
