"""The server's options, from its flags and the environment of its platform."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from nightshift.http.addresses import HOST, PORTS, is_loopback
from nightshift.http.bearer import Bearer, read_secret
from nightshift.http.flags import parse_number
from nightshift.models.graph import PROVIDERS
from nightshift.runtime.errors import UserError
from nightshift.serving import platforms
from nightshift.serving.batching import ServerLimits
from nightshift.serving.platforms import Platform

PORT = 8321
MAX_WORKERS = 256
REDIS_URL = "redis://host:6379/0"
DEVICE = "NIGHTSHIFT_DEVICE"  # set by the image for GPUs: platforms start it without flags


@dataclass(frozen=True)
class Options:
    """The checked options of a server.

    Attributes:
        name: registered model, or a name for the package.
        registry: folder of the registry whose champion is served; None: one package is.
        model: folder or URI of that package; None: the champion is served.
        host: address to listen on.
        port: first port to try.
        ports: number of ports to try, one after the other.
        token: bearer token that requests must send; None admits everybody.
        aliases: further path -> route.
        limits: bounds of a request.
        workers: number of server processes.
        read_redis: reads the URL of the Redis with the online state; None: it is kept in files of this machine.
        predictions: folder or URI of the prediction log; None: none is written.
        device: device of the graphs, `cpu` or `cuda`.
        flags: those that the next server of this registry gets too.
    """

    name: str
    registry: str | None
    model: str | None
    host: str
    port: int
    ports: int
    token: Bearer | None
    aliases: Mapping[str, str]
    limits: ServerLimits
    workers: int
    read_redis: Callable[[], str] | None
    predictions: str | None
    device: str
    flags: Sequence[str]


def read(args: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    """Check the flags.

    Raises:
        UserError: naming the flag, its value and what is allowed.
    """
    platform = platforms.detect(environment, args.serve is not None)
    host = args.host or ("0.0.0.0" if platform else HOST)  # noqa: S104 a platform's container has an address of its own
    options = Options(
        name=args.name,
        registry=args.registry,
        model=args.model or (platform.model if platform else None),
        host=host,
        port=parse_number("port", args.port or str(platform.port if platform else PORT), 65535),
        ports=1 if platform else PORTS,  # a platform sends requests to the port that it has named
        token=_read_token(args.token_file, host, platform),
        aliases=platform.aliases if platform else {},
        limits=_parse_limits(args),
        workers=parse_number("workers", args.workers, MAX_WORKERS),
        read_redis=partial(read_secret, "redis-file", args.redis_file, REDIS_URL) if args.redis_file else None,
        predictions=args.predictions,
        device=_check_device(args.device or environment.get(DEVICE, "cpu")),
        flags=_list_kept(args),
    )
    if options.read_redis:
        options.read_redis()
    if bool(options.registry) == bool(options.model):
        raise UserError("what to serve is not clear; give --registry FOLDER with --name, or --model FOLDER")
    return options


def _list_kept(args: argparse.Namespace) -> list[str]:
    """Return the flags of one server that the next one needs: its access, and the places of its state and its log."""
    values = {
        "host": args.host,
        "token-file": args.token_file and os.path.abspath(args.token_file),
        "redis-file": args.redis_file and os.path.abspath(args.redis_file),
        "predictions": args.predictions,
        "device": args.device,
    }
    return [word for name, value in values.items() if value for word in (f"--{name}", value)]


def _check_device(device: str) -> str:
    if device not in PROVIDERS:
        raise UserError(f"device is {device!r}; give one of {', '.join(PROVIDERS)}, with --device or in {DEVICE}")
    return device


def _parse_limits(args: argparse.Namespace) -> ServerLimits:
    rows, queue = parse_number("max-rows", args.max_rows), parse_number("max-queue", args.max_queue)
    budget = parse_number("reasons-ms", args.reasons_ms)
    return ServerLimits(rows=rows, queue=queue, delay=_parse_delay(args.delay_ms), reasons_ms=budget)


def _parse_delay(text: str) -> float:
    try:
        delay = float(text) / 1000
    except ValueError:
        delay = -1.0
    if not 0 <= delay <= 1:
        raise UserError(f"delay-ms is {text!r}; give a number from 0 to 1000")
    return delay


def _read_token(path: str | None, host: str, platform: Platform | None) -> Bearer | None:
    """Read the token that requests must send; None for a loopback address, or where the platform checks access.

    Raises:
        UserError: when the file cannot be read or is empty, or is missing for an address that other machines reach.
    """
    if path:
        return Bearer(path)
    if platform is None and not is_loopback(host):
        raise UserError(f"host is {host!r}, which other machines can reach; give --token-file FILE with a bearer token")
    return None
