"""What launchers report: a server in the place of Kubeflow's ML metadata, which keeps what each execution has made."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from nightshift_testkit.kubeflow_runs.spec import Json
from nightshift_testkit.servers import JsonHandler, serving


class MetadataRecords(ThreadingHTTPServer):
    """`artifacts` holds the artifacts of each execution."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RecordsHandler)
        self.artifacts: dict[str, Json] = {}


class RecordsHandler(JsonHandler):
    server: MetadataRecords

    def keep(self, body: Json) -> None:
        self.server.artifacts[self.path.rpartition("/")[2]] = body


@contextmanager
def recording() -> Iterator[MetadataRecords]:
    records = MetadataRecords()
    with serving(records):
        yield records
