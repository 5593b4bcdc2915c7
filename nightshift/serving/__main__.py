"""Flags in, a server out: see `nightshift/serving/__init__.py`."""

import os

from nightshift.http.addresses import HOST, PORTS
from nightshift.runtime.context import StepContext
from nightshift.runtime.flags import StepParser
from nightshift.runtime.step import run
from nightshift.serving import options
from nightshift.serving.batching import ServerLimits


def parser() -> StepParser:
    """Return the server's flags."""
    flags = StepParser("serving", "Serve a model: a registry's champion, or one package.")
    flags.prog = "python -m nightshift.serving"
    flags.add_argument("serve", nargs="?", choices=["serve"], help="SageMaker passes this; ignored otherwise")
    flags.add_argument("--registry", help="folder of the model registry; the server follows its champion")
    flags.add_argument("--model", help="folder or URI of one model package, instead of a registry")
    flags.add_argument(
        "--name", default="model", help="registered model, or a name for the package (default: %(default)s)"
    )
    flags.add_argument("--port", help=f"port to listen on; else one of the next {PORTS - 1} (default: 8321)")
    flags.add_argument("--host", help=f"address to listen on; a container needs 0.0.0.0 (default: {HOST})")
    flags.add_argument(
        "--token-file", help="file with the bearer token of requests; required unless only this machine has access"
    )
    rows, queue = str(ServerLimits.rows), str(ServerLimits.queue)
    flags.add_argument("--max-rows", default=rows, help="most rows of a request and of a batch (default: %(default)s)")
    flags.add_argument("--max-queue", default=queue, help="most rows that wait for a batch (default: %(default)s)")
    flags.add_argument("--device", help=f"device of the model, cpu or cuda (default: {options.DEVICE}, else cpu)")
    flags.add_argument("--workers", default="1", help="server processes (default: %(default)s)")
    flags.add_argument(
        "--redis-file", help="file with the URL of a Redis; keeps the online state of several workers or servers"
    )
    flags.add_argument("--predictions", help="folder or URI of the prediction log, Parquet files by day")
    flags.add_argument(
        "--delay-ms", default="0", help="milliseconds that a batch waits for rows (default: %(default)s)"
    )
    flags.add_argument(
        "--reasons-ms",
        default=f"{ServerLimits.reasons_ms:g}",
        help="milliseconds that the reasons of a request may take, else it is refused (default: %(default)s)",
    )
    return flags


def body(context: StepContext) -> None:
    """Serve until stopped."""
    settings = options.read(context.args, os.environ)
    from nightshift.serving.server import serve  # only once the flags are valid: its libraries take a second

    serve(settings)


if __name__ == "__main__":
    os.umask(0o077)  # events and predictions are private, also on this machine
    run(parser(), body)
