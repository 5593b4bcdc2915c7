"""Where the time of one request goes, when nothing else is asked."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from components.common.contracts import package
from components.common.contracts.loadtest import Share
from components.serving.messages import Response, decoded
from components.serving.protocols.features import predictions
from components.serving.rows import Rows
from components.tabular.inputs import Scorer

ROUNDS = 500


def shares(uri: str, bodies: Sequence[bytes], queue_us: float, total_us: float) -> list[Share]:
    """Return the parts of a request's latency, in their order, in microseconds.

    The server's own functions are called here, one after the other, for their medians; the wait for the call of the
    graph is the server's figure, and what is left of the client's median latency is HTTP and the kernel.

    Args:
        uri: folder of the model.
        bodies: of requests for `/score` with features.
        queue_us: wait of a request for the call of the graph.
        total_us: median latency that the client sees.
    """
    stages = _stages(uri, len(bodies))
    taken: dict[str, list[float]] = {name: [] for name in stages}
    for round_ in range(ROUNDS):
        value: Any = bodies[round_ % len(bodies)]
        for name, stage in stages.items():
            started = time.perf_counter()
            value = stage(value)
            taken[name].append(time.perf_counter() - started)
    found = {name: 1e6 * float(np.median(times)) for name, times in taken.items()}
    parts = {"parse": found["parse"], "features": found["features"], "queue": queue_us, "compute": found["compute"]}
    parts["serialize"] = found["serialize"]
    parts["HTTP and kernel"] = max(total_us - sum(parts.values()), 0.0)
    return [Share(name=name, microseconds=value) for name, value in parts.items()]


def _stages(uri: str, most: int) -> dict[str, Callable[[Any], Any]]:
    model = package.load(uri)
    rows, graph, threshold = Rows(model.tabular, most), Scorer(uri, model).graph, model.threshold
    return {
        "parse": decoded,
        "features": rows.matrix,
        "compute": graph.score,
        "serialize": lambda scores: Response.of({"predictions": predictions(scores, threshold)}),
    }
