"""Flags in, a model repository out: see `nightshift/serving/triton/__init__.py`."""

import argparse
import re
from pathlib import Path

from nightshift.errors import UserError
from nightshift.serving.options import number
from nightshift.serving.triton.config import Settings
from nightshift.serving.triton.repository import Wanted, publish
from nightshift.step import StepParser, log, run

LARGEST = 2**31 - 1  # version
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
NUMBERS = {  # flag -> least, most, default, help
    "keep": (1, 1_000, 2, "newest versions that stay, beside those that are served"),
    "serve-latest": (1, 1_000, Settings.latest, "newest versions that are served"),
    "gpus": (0, 64, Settings.gpus, "GPUs that run the graph; 0: the CPU"),
    "instances": (1, 1_000, Settings.instances, "of the graph, on each GPU or on the CPU"),
    "max-batch": (1, 1_000_000, Settings.rows, "rows of a request and of one call of the graph"),
    "delay-us": (0, 1_000_000, Settings.delay_us, "microseconds that a call waits for more rows"),
    "queue": (0, 1_000_000, Settings.queue, "requests that may wait; 0: any number, and no pauses of the batcher"),
}


def parser() -> StepParser:
    """Return the flags."""
    flags = StepParser("serving.triton", "Publish a model in a repository for Triton Inference Server.")
    flags.takes(
        model="folder or URI of the model package",
        name="what the model is called in the repository",
        version="its number there",
        output="folder of the repository",
    )
    for name, (_, _, default, what) in NUMBERS.items():
        flags.add_argument(f"--{name}", default=str(default), help=f"{what} (%(default)s)")
    flags.add_argument("--serve", help="versions that are served instead of the newest, such as 3,5")
    flags.add_argument("--preferred", help="rows with which a call waits no longer, such as 64,256 (--max-batch)")
    flags.add_argument("--cache", action="store_true", help="answer rows seen before from the server's response cache")
    flags.add_argument(
        "--snapshot", help="the online state's snapshot; with it, raw events are asked instead of features"
    )
    flags.add_argument("--state", help="folder where Triton keeps the online state")
    return flags


def body(args: argparse.Namespace) -> None:
    """Publish a version and withdraw old ones."""
    found = {
        name: number(name, getattr(args, name.replace("-", "_")), most, least)
        for name, (least, most, _, _) in NUMBERS.items()
    }
    settings = Settings(
        rows=found["max-batch"],
        preferred=numbers("preferred", args.preferred, found["max-batch"]),
        delay_us=found["delay-us"],
        queue=found["queue"],
        instances=found["instances"],
        gpus=found["gpus"],
        latest=found["serve-latest"],
        versions=numbers("serve", args.serve),
        cache=args.cache,
    )
    version = number("version", args.version, LARGEST)
    wanted = Wanted(_name(args.name), version, found["keep"], settings, _parameters(args))
    done = publish(_folder(args.output), args.model, wanted)
    log.info("%s, version %d, %s", wanted.name, wanted.version, "published" if done.is_new else "is there already")
    for each in done.withdrawn:
        log.info("%s, version %d, withdrawn", wanted.name, each)


def numbers(name: str, given: str | None, most: int = LARGEST) -> list[int]:
    """Return a flag's numbers, in order; none where it was not given."""
    return sorted({number(name, each, most) for each in given.split(",")}) if given else []


def _name(given: str) -> str:
    if not NAME.fullmatch(given):
        raise UserError(f"name is {given!r}; give letters, digits, '_', '-' and '.'")
    return given


def _folder(given: str) -> Path:
    if "://" in given:
        raise UserError(f"output is {given!r}; give a folder on this machine, and copy it to a store when it is whole")
    return Path(given)


def _parameters(args: argparse.Namespace) -> dict[str, str]:
    if bool(args.snapshot) != bool(args.state):
        raise UserError("snapshot and state go together; give both for raw events, or none for features")
    return {"uri": args.snapshot, "state": args.state} if args.snapshot else {}


if __name__ == "__main__":
    run(parser(), body)
