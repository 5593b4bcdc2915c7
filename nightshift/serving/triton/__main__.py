"""Publishes a model repository from flags: see `nightshift/serving/triton/__init__.py`."""

import argparse
import re
from pathlib import Path

from nightshift.http.flags import parse_number
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.runtime.flags import StepParser
from nightshift.runtime.step import log, run
from nightshift.serving.triton.config import TritonSettings
from nightshift.serving.triton.repository import PublishRequest, publish

LARGEST = 2**31 - 1  # version
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
NUMBERS = {  # flag -> least, most, default, help
    "keep": (1, 1_000, 2, "number of newest versions to keep, besides the served ones"),
    "serve-latest": (1, 1_000, TritonSettings.latest, "number of newest versions to serve"),
    "gpus": (0, 64, TritonSettings.gpus, "number of GPUs for the graph; 0: the CPU"),
    "instances": (1, 1_000, TritonSettings.instances, "instances of the graph, on each GPU or on the CPU"),
    "max-batch": (1, 1_000_000, TritonSettings.rows, "most rows of a request and of a batch"),
    "delay-us": (0, 1_000_000, TritonSettings.delay_us, "microseconds that a batch waits for more rows"),
    "queue": (0, 1_000_000, TritonSettings.queue, "most waiting requests; 0: no limit, and no batcher pauses"),
}


def parser() -> StepParser:
    """Return the flags."""
    flags = StepParser("serving.triton", "Publish a model in a repository for Triton Inference Server.")
    flags.prog = "python -m nightshift.serving.triton"
    flags.takes(
        model="folder or URI of the model package",
        name="name of the model in the repository",
        version="number of the version in the repository",
        output="folder of the repository",
    )
    for name, (_, _, default, text) in NUMBERS.items():
        flags.add_argument(f"--{name}", default=str(default), help=f"{text} (default: %(default)s)")
    flags.add_argument("--serve", help="versions to serve instead of the newest, such as 3,5")
    flags.add_argument("--preferred", help="preferred batch sizes, such as 64,256 (default: --max-batch)")
    flags.add_argument("--cache", action="store_true", help="answer repeated rows from the server's response cache")
    flags.add_argument("--snapshot", help="snapshot of the online state; accept raw events instead of features")
    flags.add_argument("--state", help="folder of the online state, on Triton's machine")
    return flags


def body(context: StepContext) -> None:
    """Publish a version and withdraw old ones."""
    args = context.args
    numbers = {
        name: parse_number(name, getattr(args, name.replace("-", "_")), most, least)
        for name, (least, most, _, _) in NUMBERS.items()
    }
    settings = TritonSettings(
        rows=numbers["max-batch"],
        preferred=parse_numbers("preferred", args.preferred, numbers["max-batch"]),
        delay_us=numbers["delay-us"],
        queue=numbers["queue"],
        instances=numbers["instances"],
        gpus=numbers["gpus"],
        latest=numbers["serve-latest"],
        versions=parse_numbers("serve", args.serve),
        cache=args.cache,
    )
    version = parse_number("version", args.version, LARGEST)
    request = PublishRequest(_check_name(args.name), version, numbers["keep"], settings, _parameters(args))
    result = publish(_check_folder(args.output), args.model, request)
    log.info("%s, version %d, %s", request.name, version, "published" if result.is_new else "is there already")
    for withdrawn in result.withdrawn:
        log.info("%s, version %d, withdrawn", request.name, withdrawn)


def parse_numbers(name: str, text: str | None, most: int = LARGEST) -> list[int]:
    """Parse a flag's numbers, separated by commas; return them in order, none for a missing flag."""
    return sorted({parse_number(name, number, most) for number in text.split(",")}) if text else []


def _check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UserError(f"name is {name!r}; give letters, digits, '_', '-' and '.'")
    return name


def _check_folder(folder: str) -> Path:
    if "://" in folder:
        raise UserError(f"output is {folder!r}; give a folder on this machine, and copy it to a store when it is whole")
    return Path(folder)


def _parameters(args: argparse.Namespace) -> dict[str, str]:
    if bool(args.snapshot) != bool(args.state):
        raise UserError("snapshot and state go together; give both for raw events, or none for features")
    return {"uri": args.snapshot, "state": args.state} if args.snapshot else {}


if __name__ == "__main__":
    run(parser(), body)
