"""Starts a gateway from flags: see `packages/llm/nightshift_llm/gateway/__init__.py`."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence

from nightshift.http.addresses import HOST, is_loopback
from nightshift.http.bearer import read_secret
from nightshift.http.flags import parse_number
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.runtime.flags import StepParser
from nightshift.runtime.step import run
from nightshift_llm.gateway import server
from nightshift_llm.gateway.application import GatewayPolicy
from nightshift_llm.gateway.completions import ENGINE_FIELDS
from nightshift_llm.gateway.fleet import Address, parse_address, parse_addresses
from nightshift_llm.gateway.followed import FollowedFile, read_file
from nightshift_llm.gateway.keys import ApiKey, parse_keys
from nightshift_llm.gateway.prices import Prices, parse_prices
from nightshift_llm.gateway.server import GatewayOptions

PORT = "8320"
EXAMPLE = "that of the engines' --token-file or --api-key"


def parser() -> StepParser:
    """Return the gateway's flags."""
    flags = StepParser("gateway", "Route OpenAI's API to replicas of a language model's engine.")
    flags.prog = "python -m nightshift_llm.gateway"
    flags.add_argument("--replica", action="append", help="[VERSION=]URL of a replica; repeat it for more")
    flags.add_argument("--replicas", help="file with one replica per line; reloaded when it changes")
    flags.add_argument("--replica-token-file", help="file with the bearer token to send to replicas")
    flags.add_argument("--keys", help="YAML file of API keys, with hashes and limits; reloaded when it changes")
    flags.add_argument("--ledger", help="SQLite file of the usage of keys; required with --keys")
    flags.add_argument("--prices", help="YAML file of prices per version; required for keys with dollars_per_day")
    flags.add_argument(
        "--engine-field",
        action="append",
        default=[],
        metavar="NAME",
        help="field of requests to pass to engines beside the documented ones; repeat it for more",
    )
    flags.add_argument("--log", help="folder to log requests to: sizes, tokens and outcomes, no text")
    flags.add_argument("--port", default=PORT, help="port to listen on (default: %(default)s)")
    flags.add_argument("--host", default=HOST, help="address to listen on (default: %(default)s)")
    return flags


def body(context: StepContext) -> None:
    """Serve until stopped."""
    server.serve(_read_options(context.args))


def _read_options(args: argparse.Namespace) -> GatewayOptions:
    """Check the flags.

    Raises:
        UserError: naming the flag, its value and what is allowed.
    """
    if bool(args.keys) != bool(args.ledger):
        raise UserError("keys and ledger belong together; give both --keys FILE and --ledger FILE, or neither")
    if not args.keys and not is_loopback(args.host):
        raise UserError(f"host is {args.host!r}, which other machines can reach; give --keys FILE and --ledger FILE")
    port = parse_number("port", args.port, 65535)
    token = read_secret("replica-token-file", args.replica_token_file, EXAMPLE) if args.replica_token_file else ""
    prices = parse_prices(args.prices, read_file("prices", args.prices)) if args.prices else None
    policy = GatewayPolicy(_read_keys(args.keys, prices), prices, ENGINE_FIELDS.union(args.engine_field))
    return GatewayOptions(args.host, port, _read_replicas(args), policy, args.ledger, token, args.log)


def _read_replicas(args: argparse.Namespace) -> Callable[[], Sequence[Address]]:
    if bool(args.replica) == bool(args.replicas):
        raise UserError("give the replicas with either --replica URL, once per replica, or --replicas FILE")
    if args.replicas:
        return FollowedFile("replicas", args.replicas, parse_addresses).read
    addresses = [parse_address("replica", text) for text in args.replica]
    return lambda: addresses


def _read_keys(path: str | None, prices: Prices | None) -> Callable[[], Mapping[str, ApiKey]] | None:
    def parse(path: str, text: bytes) -> Mapping[str, ApiKey]:
        keys = parse_keys(path, text)
        for key in keys.values():
            if key.dollars_per_day is not None and prices is None:
                raise UserError(
                    f"keys {path!r}: {key.name} has dollars_per_day, which needs prices; give --prices FILE"
                )
        return keys

    return FollowedFile("keys", path, parse).read if path else None


if __name__ == "__main__":
    os.umask(0o077)  # the usage of keys is private, also on this machine
    run(parser(), body)
