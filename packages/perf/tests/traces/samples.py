"""Traces written by hand; times are microseconds."""

import gzip
import json
from pathlib import Path

import pytest

from nightshift_perf.traces import kineto
from nightshift_perf.traces.trace import Origin

CASES = Path(__file__).parents[5] / "shared/cases/traces"
cases = pytest.mark.skipif(not CASES.exists(), reason="the cases, ../shared/cases/traces, are not here")
HOST, PROCESS = 7, 100
NAMES = {  # names of the old and of the new dialect
    "old": {
        "kernel": "Kernel", "copy": "Memcpy", "set": "Memset", "op": "Operator", "call": "Runtime", "range": "Operator",
    },
    "new": {
        "kernel": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset", "op": "cpu_op", "call": "cuda_runtime",
        "range": "user_annotation",
    },
}  # fmt: skip
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
TO_DEVICE = "Memcpy HtoD (Pageable -> Device)"


class Events:
    """Builds a trace event by event, in one dialect."""

    def __init__(self, dialect="new", zero=1_000_000.0):
        self.names, self.zero, self.events, self.dialect = NAMES[dialect], zero, [], dialect
        self.number = 0

    def add(self, kind, name, start, took, tid=HOST, pid=PROCESS, **args):
        ts = self.zero + start
        event = {"ph": "X", "cat": self.names[kind], "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": took}
        self.events.append(event | {"args": args})
        return self

    def steps(self, *spans):
        for number, (start, end) in enumerate(spans):
            self.add("range", f"ProfilerStep#{number}", start, end - start)
        return self

    def kernel(
        self, name, start, took, launched=None, device=0, stream=7, kind="kernel", launch="cudaLaunchKernel", **args
    ):
        """Add work, and the call that launched it where that is known: (start, duration)."""
        self.number += 1
        tid = f"stream {stream}" if self.dialect == "old" else stream
        where = {"device": device, "stream": stream, "correlation": self.number}
        self.add(kind, name, start, took, tid=tid, pid=device, **where, **args)
        if launched:
            self.add("call", launch, *launched, correlation=self.number)
        return self

    def copy(self, name, start, took, launched=None, **args):
        return self.kernel(name, start, took, launched, kind="copy", launch="cudaMemcpyAsync", **args)

    def value(self, **about):
        return {"schemaVersion": 1, **about, "traceEvents": self.events}

    def trace(self, tmp_path, **about):
        return read(tmp_path, json.dumps(self.value(**about)).encode())


def read(tmp_path, content, name="trace.json"):
    path = tmp_path / name
    path.write_bytes(content)
    with path.open("rb") as file:
        return kineto.read(file, str(path))


def save(path, events, **about):
    content = json.dumps(events.value(**about)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def origin(**values):
    return Origin(**({"source": "trace.json"} | values))
