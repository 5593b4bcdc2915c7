"""Send a model server nearly valid requests, and check its answers: `python -m tests.nightly.fuzz --seed 0`.

Requests of all protocols are changed at random, in their heads and bodies, cut at any byte and sent many at once over
raw sockets. No answer may be a 5xx or hold a NaN, memory may not grow, and the online state must equal a replay of the
acknowledged events.
"""

import argparse
import json
import random
import re
import socket
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks import figures
from benchmarks.online import CUSTOMERS, TERMINALS
from benchmarks.serving import model
from nightshift.serving import files
from nightshift.tabular.online import snapshot
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.event import Event, EventParser
from nightshift_testkit.processes import SECONDS, read_memory, started, wait_until
from nightshift_testkit.servers import free_port

PIPELINED = 40  # requests of a connection
PROBES = 50
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\n(.*?\r\n)\r\n", re.DOTALL)
NOT_A_NUMBER = re.compile(rb'[:,\[] ?-?(NaN|nan|Infinity|inf)\b|"score":null')  # where JSON has a value
ODD_VALUES: list[Any] = [
    None, True, -1, 0, 1.5, 1e300, 2**63, 10**400, "", "x", "\0", "\u20ac" * 50, "2024-13-01", "9999-12-31T23:59:59Z",
    [], {}, [[[]]], {"a": [1]},
]  # fmt: skip
HEADERS = [
    "Content-Length: 5", "Content-Length: -1", f"Content-Length: {'9' * 5000}", "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip", "Host: a", "Connection: close", "Expect: 100-continue", "Upgrade: h2c", "A : b",
    f"A: {'x' * 70_000}", "Content-Encoding: gzip", "Content-Encoding: br", "X-Model-Version: 7", "A: \0",
    f"Inference-Header-Content-Length: {'9' * 5000}", "Inference-Header-Content-Length: 3", "Range: bytes=0-",
]  # fmt: skip


@dataclass
class FuzzResult:
    """The outcome of a run.

    Attributes:
        statuses: number of answers by status.
        wrong: the first few invalid answers.
        acknowledged: events of each request answered with 200, in order.
        memory: resident bytes of the server at the start and at the end.
        differing: number of probes for which the replayed state differs.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    acknowledged: list[list[dict[str, Any]]] = field(default_factory=list)
    memory: tuple[int, int] = (0, 0)
    differing: int = 0

    def add(self, status: int, body: bytes) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        if (status >= 500 or NOT_A_NUMBER.search(body)) and len(self.wrong) < 10:
            self.wrong.append(f"{status}: {body[:300]!r}")


class Generator:
    """Generates the requests of one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._draw = random.Random(seed)
        self._bodies = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("features", "tensors")}
        self._number = 0

    def batch(self) -> tuple[bytes, list[list[dict[str, Any]]] | None]:
        """Return a connection's bytes, and the events of each request; None where an answer may be missing."""
        draw = self._draw
        if draw.random() < 0.5:
            requests = [self._request(*self._body()) for _ in range(PIPELINED)]
            return b"".join(request for request, _ in requests), [events for _, events in requests]
        sent = b"".join(self._hostile() for _ in range(draw.randrange(1, PIPELINED)))
        return sent[: draw.randrange(len(sent))] if draw.random() < 0.5 else sent, None

    def _body(self) -> tuple[str, bytes, list[str], list[dict[str, Any]]]:
        """Return a path, a body, its headers and its events."""
        kind = self._draw.choice(["features", "tensors", "binary", "events", "events", "labels"])
        if kind == "binary":
            return self._binary()
        if kind in self._bodies:
            path = "/score" if kind == "features" else "/v2/models/fraud/infer"
            return path, self._json(self._change(self._bodies[kind])), [], []
        events = [self._event() for _ in range(self._draw.randrange(1, 4))]
        if kind == "events":
            return "/score", self._json({"events": events}), [], events
        labels = [{"event_id": event["event_id"], "event_time": event["event_time"], "label": 7} for event in events]
        return "/labels", self._json(self._change({"labels": labels})), [], []

    def _event(self) -> dict[str, Any]:
        draw, self._number = self._draw, self._number + 1
        time = f"{model.NEXT}T{draw.randrange(24):02}:{draw.randrange(60):02}:{draw.randrange(60):02}Z"
        event = {"event_id": model.NEXT.toordinal() * 10**6 + draw.randrange(self._number + 1), "event_time": time}
        event |= {"customer": draw.randrange(CUSTOMERS), "terminal": draw.randrange(TERMINALS), "amount": 3.5}
        return event | {draw.choice(list(event)): draw.choice(ODD_VALUES)} if draw.random() < 0.3 else event

    def _binary(self) -> tuple[str, bytes, list[str], list[dict[str, Any]]]:
        draw, size = self._draw, 4 * model.WIDTH
        values = [draw.choice([0.5, -1.0, float("nan"), float("inf"), 3e38]) for _ in range(model.WIDTH)]
        tensor = {"name": "inputs", "shape": [1, model.WIDTH], "datatype": "FP32"}
        parameters = {"binary_data_output": True}
        head = self._json({"inputs": [tensor | {"parameters": {"binary_data_size": size}}], "parameters": parameters})
        length = draw.choice([len(head), len(head), len(head) + 1, 0, -1])
        lines = [f"Inference-Header-Content-Length: {length}"]
        return "/v2/models/fraud/infer", head + struct.pack(f"<{model.WIDTH}f", *values), lines, []

    def _change(self, value: Any) -> Any:
        """Return a value with one part of it changed."""
        draw = self._draw
        if draw.random() < 0.3 or not isinstance(value, list | dict) or not value:
            return draw.choice(ODD_VALUES)
        if isinstance(value, list):
            index = draw.randrange(len(value))
            return [self._change(entry) if i == index else entry for i, entry in enumerate(value)]
        name = draw.choice(list(value))
        return {key: self._change(entry) if key == name else entry for key, entry in value.items()}

    def _json(self, value: Any) -> bytes:
        body = json.dumps(value).encode()
        if self._draw.random() < 0.05:
            return body[: self._draw.randrange(len(body) + 1)]
        if self._draw.random() < 0.02:
            return b'{"instances": ' + b"[" * 980 + b"]" * 980 + b"}"
        return body

    def _request(
        self, path: str, body: bytes, lines: list[str], events: list[dict[str, Any]]
    ) -> tuple[bytes, list[dict[str, Any]]]:
        head = [f"POST {path} HTTP/1.1", "Host: localhost", *lines, f"Content-Length: {len(body)}", "", ""]
        return "\r\n".join(head).encode() + body, events

    def _hostile(self) -> bytes:
        """Return a request without events and with an odd head or changed bytes."""
        draw, body = self._draw, self._json(self._change(self._bodies["features"]))
        path = draw.choice(["/score", "/v2", "/healthz", "/%ff", "/v2/models/%2f/infer", "*", "http://h/score?a=%zz"])
        method = draw.choice(["POST", "GET", "HEAD", "OPTIONS", "PUT", "CONNECT", "FOO"])
        lines = [f"{method} {path} HTTP/1.{draw.choice('1110')}", "Host: localhost", f"Content-Length: {len(body)}"]
        lines[1:1] = draw.choices(HEADERS, k=draw.choice([0, 0, 1, 2]))
        sent = bytearray("\r\n".join([*lines, "", ""]).encode() + body)
        for _ in range(draw.choice([0, 0, 1, 3])):
            sent[draw.randrange(len(sent))] = draw.randrange(256)
        return bytes(sent)


def split_answers(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the status and body of each answer; no request may be a HEAD."""
    while match := ANSWER.match(data):
        length = int(re.search(rb"content-length: (\d+)", match[2])[1]) if b"content-length" in match[2] else 0
        yield int(match[1]), data[match.end() : match.end() + length]
        data = data[match.end() + length :]


def exchange(port: int, sent: bytes) -> bytes:
    """Send all bytes and end the sending side; return the bytes received until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        parts = []
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(1 << 20):
                parts.append(part)
        except ConnectionError:  # closed by the server after its last answer
            pass
        return b"".join(parts)


def fuzz(folder: Path, requests: int, seed: int) -> FuzzResult:
    """Send a server about this many requests, and check its state afterwards.

    Args:
        folder: folder that `model.write` has filled.
        requests: number of requests.
        seed: seed of the generator.
    """
    result, generator = FuzzResult(), Generator(seed, folder)
    with run_server(folder, model.snapshot_of_the_past(folder)) as (pid, port):
        for number in range(requests // PIPELINED):
            if number == requests // PIPELINED // 10:
                result.memory = (read_memory(pid), 0)
            sent, events = generator.batch()
            received = exchange(port, sent)
            if events is None:  # answers to HEAD have no body, so only their statuses are read
                for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received):
                    result.add(int(status), received)
                continue
            complete = list(split_answers(received))
            assert len(complete) == len(events), (
                f"{len(complete)} answers to {len(events)} requests: {received[-300:]!r}"
            )
            for (status, body), acknowledged in zip(complete, events, strict=True):
                result.add(status, b"" if body[:1] == b"{" and b"binary_data_size" in body else body)
                if status == 200 and acknowledged:
                    result.acknowledged.append(acknowledged)
        result.memory = (result.memory[0], read_memory(pid))
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").json()["status"] == "ok"
        page = httpx.get(f"http://127.0.0.1:{port}/metrics").content
        assert not re.search(rb" (NaN|[+-]Inf)$", page, re.MULTILINE)
    result.differing = count_differing(folder, result.acknowledged)
    return result


def count_differing(folder: Path, acknowledged: list[list[dict[str, Any]]]) -> int:
    """Return for how many probes the server's state and a replay of the events differ."""
    base = snapshot.map_file(model.snapshot_of_the_past(folder), str(folder / "replay"))
    reader, draw = EventParser(base.snapshot.events), random.Random(0)
    state = Path(files.state_folder(str(folder), model.NAME))
    with closing(Embedded(state, base)) as served, closing(Embedded(folder / "again", base)) as replayed:
        for events in acknowledged:
            replayed.take([reader.read(event) for event in events])
        last = max(reader.read(event).time for events in acknowledged for event in events)
        probes = [
            Event(-(10**12) - number, last, draw.randrange(CUSTOMERS), draw.randrange(TERMINALS), 1.0)
            for number in range(PROBES)
        ]
        return sum(not np.array_equal(*pair) for pair in zip(served.take(probes), replayed.take(probes), strict=True))


@contextmanager
def run_server(folder: Path, snapshot: str | None = None) -> Iterator[tuple[int, int]]:
    """Serve the benchmark's model, over a snapshot if one is given; yield the process id and the port."""
    model.point(folder, snapshot)
    port = free_port()
    command = [sys.executable, "-m", "nightshift.serving", "--registry", str(folder), "--name", model.NAME]
    with started([*command, "--port", str(port)]) as process:
        wait_until(lambda: is_healthy(port), "the server answers")
        yield process.pid, port
        process.terminate()
        process.wait(SECONDS)


def is_healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").is_success
    except httpx.TransportError:
        return False


def main() -> None:
    """Fuzz a server with the flags' number of requests, and print the result."""
    flags = argparse.ArgumentParser(prog="python -m tests.nightly.fuzz", description=__doc__)
    flags.add_argument("--requests", type=int, default=100_000)
    flags.add_argument("--seed", type=int, default=0)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model.write(Path(folder))
        result = fuzz(Path(folder), args.requests, args.seed)
    first, last = (size >> 20 for size in result.memory)
    print(f"statuses {dict(sorted(result.statuses.items()))}; wrong: {result.wrong}")
    row = {
        "requests": args.requests,
        "answers read": sum(result.statuses.values()),
        "wrong": len(result.wrong),
        "events acknowledged": len(result.acknowledged),
        "probes that differ from a replay": result.differing,
        "MiB after a tenth": first,
        "MiB at the end": last,
    }
    figures.publish("fuzz", [row], f"Seed {args.seed}.")
    sys.exit(bool(result.wrong or result.differing))


if __name__ == "__main__":
    main()
