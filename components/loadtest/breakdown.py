"""Where the time of one request goes, when nothing else is asked."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np

from components.classes.scorer import scores
from components.common.contracts import package
from components.common.contracts.loadtest import Share
from components.common.contracts.package import Tabular
from components.common.graph import Graph
from components.serving.items import tasks
from components.serving.items.base import Items
from components.serving.messages import Response, decoded
from components.serving.protocols import features, items
from components.serving.rows import Rows

PARTS = ("parse", "features", "decode", "queue", "compute", "serialize", "HTTP and kernel")
ROUNDS = 500
SECONDS = 5  # after which no further round begins


def shares(uri: str, bodies: Sequence[bytes], queue_us: float, total_us: float) -> list[Share]:
    """Return the parts of a request's latency, in their order, in microseconds.

    The server's own functions are called here, one after the other, for their medians; the wait for the call of the
    graph is the server's figure, and what is left of the client's median latency is HTTP and the kernel.

    Args:
        uri: folder of the model.
        bodies: of requests for `/score`, with features, or an image or a text each.
        queue_us: wait of a request for the call of the graph.
        total_us: median latency that the client sees.
    """
    stages = _stages(uri, len(bodies))
    taken: dict[str, list[float]] = {name: [] for name in stages}
    deadline = time.perf_counter() + SECONDS
    for round_ in takewhile(lambda _: time.perf_counter() < deadline, range(ROUNDS)):
        value: Any = bodies[round_ % len(bodies)]
        for name, stage in stages.items():
            started = time.perf_counter()
            value = stage(value)
            taken[name].append(time.perf_counter() - started)
    parts = {name: 1e6 * float(np.median(times)) for name, times in taken.items()}
    parts |= {"queue": queue_us, "HTTP and kernel": max(total_us - queue_us - sum(parts.values()), 0.0)}
    return [Share(name=name, microseconds=parts[name]) for name in PARTS if name in parts]


def _stages(uri: str, most: int) -> dict[str, Callable[[Any], Any]]:
    model = package.load(uri)
    graph, made = Graph(package.read_graph(uri, model, model.selected)), model.preprocessing
    if not isinstance(made, Tabular):
        return _of_items(graph, tasks.of(model, uri))
    rows, threshold = Rows(made, most), model.threshold
    return {
        "parse": decoded,
        "features": rows.matrix,
        "compute": graph.score,
        "serialize": lambda scores: Response.of({"predictions": features.predictions(scores, threshold)}),
    }


def _of_items(graph: Graph, found: Items) -> dict[str, Callable[[Any], Any]]:
    return {
        "decode": lambda content: found.seen(content)[None],
        "compute": partial(scores, graph),
        "serialize": lambda scores: Response.of(items.predictions(found, scores)[0]),
    }
