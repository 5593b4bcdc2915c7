"""Flags in, a server out: see `nightshift/serving/__init__.py`."""

import argparse
import os

from nightshift.serving import options
from nightshift.serving.batching import Limits
from nightshift.serving.options import HOST, PORTS
from nightshift.step import StepParser, run


def parser() -> StepParser:
    """Return the server's flags."""
    flags = StepParser("serving", "Serve a model: a registry's champion, or one package.")
    flags.add_argument("serve", nargs="?", choices=["serve"], help="what SageMaker gives a container it starts")
    flags.add_argument("--registry", help="folder of the model registry, whose champion is followed")
    flags.add_argument("--model", help="folder or URI of one model package, instead of a registry")
    flags.add_argument(
        "--name", default="model", help="the registered model, or what to call the package (%(default)s)"
    )
    flags.add_argument("--port", help=f"port to listen on; one of the next {PORTS - 1} when it is taken (8321)")
    flags.add_argument("--host", help=f"address to listen on; a container needs 0.0.0.0 ({HOST})")
    flags.add_argument("--token-file", help="file with the bearer token of requests; needed beyond this machine")
    for name, what in (("rows", "of a request and of one call of the model"), ("queue", "that may wait for a call")):
        flags.add_argument(f"--max-{name}", default=str(getattr(Limits, name)), help=f"rows {what} (%(default)s)")
    flags.add_argument("--device", help=f"where graphs run, cpu or cuda (cpu, or what {options.DEVICE} says)")
    flags.add_argument("--workers", default="1", help="processes that answer (%(default)s)")
    flags.add_argument(
        "--redis-file", help="file with the URL of a Redis that keeps the online state of several workers or servers"
    )
    flags.add_argument("--predictions", help="folder or URI of the prediction log, Parquet files by day")
    flags.add_argument("--delay-ms", default="0", help="how long a call waits for more rows (%(default)s)")
    return flags


def body(args: argparse.Namespace) -> None:
    """Serve until stopped."""
    wanted = options.read(args, os.environ)
    from nightshift.serving.server import serve  # not before the flags are right: its libraries take a second

    serve(wanted)


if __name__ == "__main__":
    os.umask(0o077)  # what events and answers say is nobody else's on this machine
    run(parser(), body)
