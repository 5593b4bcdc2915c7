"""`python -m nightshift_perf.kernels MODEL`: times a model's kernels on request, for `pairs.py`.

It prints the kernels' names as a JSON list, then answers each line of its input, `["name", calls]`, with CPU seconds:
time in which another process has the processor says nothing about a kernel. Kernels run on one thread.
"""

import json
import sys
import time
from collections.abc import Callable

from nightshift.contracts import package
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError

BATCH = 1024

Kernel = Callable[[], object]


def kernels(uri: str) -> dict[str, Kernel]:
    """Return what a model is asked for, on rows of its reference sample: name -> what to call."""
    from nightshift.tabular import inputs

    model, rows = package.load(uri), package.read_reference(uri).head(BATCH)
    graph = Graph(package.read_graph(uri, model, model.selected))
    matrix = inputs.matrix(model.tabular, rows)
    return {
        "making the matrix": lambda: inputs.matrix(model.tabular, rows),
        "scoring one row": lambda: graph.score(matrix[:1]),
        "scoring a batch": lambda: graph.score(matrix),
    }


def seconds(kernel: Kernel, calls: int) -> float:
    """Return the CPU seconds of so many calls."""
    started = time.process_time()
    for _ in range(calls):
        kernel()
    return time.process_time() - started


def main() -> None:
    """Answer until the input ends."""
    try:
        known = kernels(sys.argv[1])
    except UserError as error:
        sys.exit(str(error))
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        name, calls = json.loads(line)
        print(seconds(known[name], calls), flush=True)


if __name__ == "__main__":
    main()
