"""What a server is started with: flags, and what the platform sets that has started it."""

import argparse
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from nightshift.errors import UserError
from nightshift.graph import PROVIDERS
from nightshift.serving import platforms
from nightshift.serving.batching import Limits
from nightshift.serving.bearer import Bearer, secret
from nightshift.serving.platforms import Platform

HOST = "127.0.0.1"
PORT = 8321
PORTS = 21
MOST_WORKERS = 256
MAX_DIGITS = 9
DEVICE = "NIGHTSHIFT_DEVICE"  # which the image for GPUs sets: platforms start it without our flags


@dataclass(frozen=True)
class Options:
    """What a server is started with.

    Attributes:
        name: the registered model, or what to call the package.
        registry: folder of the registry whose champion is followed, None where one package is served.
        model: folder or URI of that package.
        host: address to listen on.
        port: to listen on.
        ports: how many to try, one after the other.
        token: what a request has to bear; None lets everybody in.
        aliases: path -> the route that answers it too.
        limits: of a request.
        workers: processes that answer.
        redis: URL of what keeps the online state; None: files of this machine do.
        predictions: folder or URI of the prediction log, None without one.
        device: where graphs run, `cpu` or `cuda`.
    """

    name: str
    registry: str | None
    model: str | None
    host: str
    port: int
    ports: int
    token: Bearer | None
    aliases: Mapping[str, str]
    limits: Limits
    workers: int
    redis: str | None
    predictions: str | None
    device: str


def read(args: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    """Check the flags.

    Raises:
        UserError: naming the flag, its value and what is allowed.
    """
    platform = platforms.detect(environment, args.serve is not None)
    host = args.host or ("0.0.0.0" if platform else HOST)  # noqa: S104 a platform's container has an address of its own
    found = Options(
        name=args.name,
        registry=args.registry,
        model=args.model or (platform.model if platform else None),
        host=host,
        port=number("port", args.port or str(platform.port if platform else PORT), 65535),
        ports=1 if platform else PORTS,  # a platform asks the port that it has named
        token=_token(args.token_file, host, platform),
        aliases=platform.aliases if platform else {},
        limits=_limits(args),
        workers=number("workers", args.workers, MOST_WORKERS),
        redis=secret("redis-file", args.redis_file, "redis://host:6379/0") if args.redis_file else None,
        predictions=args.predictions,
        device=_device(args.device or environment.get(DEVICE, "cpu")),
    )
    if bool(found.registry) == bool(found.model):
        raise UserError("what to serve is not clear; give --registry FOLDER with --name, or --model FOLDER")
    return found


def _device(given: str) -> str:
    if given not in PROVIDERS:
        raise UserError(f"device is {given!r}; give one of {', '.join(PROVIDERS)}, with --device or in {DEVICE}")
    return given


def _limits(args: argparse.Namespace) -> Limits:
    rows, queue = number("max-rows", args.max_rows), number("max-queue", args.max_queue)
    return Limits(rows=rows, queue=queue, delay=_delay(args.delay_ms))


def number(name: str, given: str, most: int = 1_000_000, least: int = 1) -> int:
    """Return a flag's number.

    Raises:
        UserError: when it is none, or not allowed.
    """
    is_number = given.isascii() and given.isdecimal() and len(given) <= MAX_DIGITS
    if not (is_number and least <= int(given) <= most):
        raise UserError(f"{name} is {given!r}; give a number from {least} to {most}")
    return int(given)


def _delay(given: str) -> float:
    try:
        delay = float(given) / 1000
    except ValueError:
        delay = -1.0
    if not 0 <= delay <= 1:
        raise UserError(f"delay-ms is {given!r}; give a number from 0 to 1000")
    return delay


def _token(path: str | None, host: str, platform: Platform | None) -> Bearer | None:
    """Read the token that requests have to bear, None where nobody else can ask, or the platform checks who does.

    Raises:
        UserError: when the file cannot be read or is empty, or there is none and other machines can ask.
    """
    if path:
        return Bearer(path)
    if platform is None and not _is_loopback(host):
        raise UserError(f"host is {host!r}, which other machines can reach; give --token-file FILE with a bearer token")
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
