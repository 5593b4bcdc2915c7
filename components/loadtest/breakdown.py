"""Parts of the latency of a lone request."""

import time
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from nightshift import tasks
from nightshift.contracts import package
from nightshift.contracts.loadtest import LatencyShare

PARTS = ("parse", "features", "decode", "queue", "compute", "serialize", "HTTP and kernel")
ROUNDS = 500
SECONDS = 5  # after which no further round begins


def shares(uri: str, bodies: Sequence[bytes], queue_us: float, total_us: float) -> list[LatencyShare]:
    """Return the parts of a request's latency, in their order, in microseconds.

    The server's own functions are called here, one after the other, for their medians; the wait for the call of the
    graph is the server's figure, and what is left of the client's median latency is HTTP and the kernel.

    Args:
        uri: folder of the model.
        bodies: bodies of requests for `/score`, with features, or an image or a text each.
        queue_us: wait of a request for the call of the graph.
        total_us: median latency that the client sees.
    """
    model = package.load(uri)
    stages = tasks.find(model.kind).examples.stages(uri, model, len(bodies))
    durations: dict[str, list[float]] = {name: [] for name in stages}
    deadline = time.perf_counter() + SECONDS
    for round_ in takewhile(lambda _: time.perf_counter() < deadline, range(ROUNDS)):
        value: Any = bodies[round_ % len(bodies)]
        for name, stage in stages.items():
            started = time.perf_counter()
            value = stage(value)
            durations[name].append(time.perf_counter() - started)
    parts = {name: 1e6 * float(np.median(times)) for name, times in durations.items()}
    parts |= {"queue": queue_us, "HTTP and kernel": max(total_us - queue_us - sum(parts.values()), 0.0)}
    return [LatencyShare(name=name, microseconds=parts[name]) for name in PARTS if name in parts]
