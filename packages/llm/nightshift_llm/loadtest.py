"""Load-tests a server of a language model: time to the first token, and time per token.

    python -m nightshift_llm.loadtest --url http://127.0.0.1:8080 --rates 1,2,4

The server speaks OpenAI's API with streams: an engine, or a router before several. The report is JSON.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nightshift.http.bearer import read_secret
from nightshift.http.client import ExchangeError, call, encode_request
from nightshift.http.flags import parse_number
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError, UserError, may_pass
from nightshift.runtime.flags import StepParser
from nightshift_llm.contracts.streams import StreamLoadTest, StreamPoint
from nightshift_llm.streams.client import Target, run_open_loop
from nightshift_llm.streams.summary import StreamLimits, summarize
from nightshift_llm.streams.workload import FORMS, Endpoint, Lengths, PlannedRequest, Workload

if TYPE_CHECKING:
    from argparse import Namespace

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
RATE = re.compile(r"\d{1,6}(\.\d{1,6})?")
NUMBERS = {  # flag -> least, most, default, help
    "seconds": (1, 86_400, 30, "duration of the measurement per rate in seconds"),
    "seed": (0, 2**31 - 1, 0, "seed of arrival times, lengths and texts"),
    "first-token-ms": (1, 3_600_000, 500, "limit of the time to first token in ms, for goodput"),
    "per-token-ms": (1, 3_600_000, 50, "limit of the time per further token in ms, for goodput"),
}


def parser() -> StepParser:
    """Return the flags."""
    flags = StepParser("language.loadtest", "Load-test the streams of a language model's server.")
    flags.prog = "python -m nightshift_llm.loadtest"
    flags.takes(
        url="URL of the server, such as http://127.0.0.1:8080", rates="requests per second to test, such as 1,2,4"
    )
    flags.add_argument("--model", help="model name in requests (default: the first that the server lists)")
    flags.add_argument("--endpoint", choices=sorted(PATHS), default="chat", help="API to call (default: %(default)s)")
    flags.add_argument("--prompts", default="128", help=f"words per prompt: {FORMS} (default: %(default)s)")
    flags.add_argument("--outputs", default="64", help=f"tokens per completion: {FORMS} (default: %(default)s)")
    flags.add_argument("--token-file", help="file with the bearer token to send")
    flags.add_argument("--output", help="file or URI to write the JSON report to")
    for name, (_, _, default, text) in NUMBERS.items():
        flags.add_argument(f"--{name}", default=str(default), help=f"{text} (default: %(default)s)")
    return flags


def body(context: StepContext) -> None:
    """Measure at each rate, one after the other."""
    args, numbers = context.args, _read_numbers(context.args)
    rates, target = read_rates(args.rates), read_target(args)
    prompts, outputs = Lengths.parse("prompts", args.prompts), Lengths.parse("outputs", args.outputs)
    model = args.model or ask_model(target)
    workload = Workload(Endpoint(target.path, model), prompts, outputs, numbers["seed"])
    limits = StreamLimits(numbers["first-token-ms"], numbers["per-token-ms"])
    check_answer(target, workload)
    report = StreamLoadTest(
        url=target.url,
        model=model,
        seed=workload.seed,
        prompt_lengths=prompts.text,
        output_lengths=outputs.text,
        first_token_limit_ms=limits.first_token,
        per_token_limit_ms=limits.per_token,
        points=[measure(target, workload.plan(rate, numbers["seconds"]), rate, limits) for rate in rates],
    )
    if args.output:
        report.write(args.output)


def measure(target: Target, requests: Sequence[PlannedRequest], rate: float, limits: StreamLimits) -> StreamPoint:
    """Measure at one rate.

    Raises:
        UserError: when no request is due in so short a time.
    """
    if not requests:
        raise UserError(f"--seconds is too short for a rate of {rate:g}: no request is due; raise --seconds")
    point = summarize(asyncio.run(run_open_loop(target, requests)), rate, limits)
    step.log.info("%s", describe(point))
    return point


def describe(point: StreamPoint) -> str:
    """Return a measurement in one line."""
    first, later = point.first_token_ms, point.per_token_ms
    return (
        f"{point.offered:g} requests/s: first token p50 {_show(first.p50)}, p99 {_show(first.p99)}; "
        f"per token p50 {_show(later.p50)}, p99 {_show(later.p99)}; {point.output_tokens_per_second:.0f} tokens/s, "
        f"goodput {point.goodput:.2f}/s, {point.completed} of {point.sent} completed {point.errors or ''}"
    ).rstrip()


def _show(milliseconds: float | None) -> str:
    return "unknown" if milliseconds is None else f"{milliseconds:.0f} ms"


def read_rates(text: str) -> list[float]:
    """Parse `--rates`.

    Raises:
        UserError: when one is not a number above 0.
    """
    words = text.split(",")
    if not all(RATE.fullmatch(word) and float(word) for word in words):
        raise UserError(f"rates is {text!r}; give numbers above 0, such as 0.5,2")
    return [float(word) for word in words]


def read_target(args: "Namespace") -> Target:
    """Check the server's URL and token.

    Raises:
        UserError: naming the flag, its value and what is allowed.
    """
    url = args.url.rstrip("/").removesuffix("/v1")
    if not re.fullmatch(r"https?://[^/\s]+", url):
        raise UserError(f"url is {args.url!r}; give one such as http://127.0.0.1:8080")
    token = read_secret("token-file", args.token_file, "the token") if args.token_file else None
    return Target(url, PATHS[args.endpoint], token)


def ask_model(target: Target) -> str:
    """Return the first model that the server lists.

    Raises:
        UnavailableError: when the server does not respond.
        UserError: when the server lists none.
    """
    address = target.address
    try:
        response = call(address, encode_request("GET", "/v1/models", address.authority, token=target.token or ""), 30)
        return str(json.loads(response.body)["data"][0]["id"])
    except ExchangeError as error:
        raise UnavailableError(f"{target.url} does not answer ({error}); start the server") from None
    except (ValueError, LookupError, TypeError):
        raise UserError(f"{target.url}/v1/models answered {response.status} and lists no model; give --model") from None


def check_answer(target: Target, workload: Workload) -> None:
    """Send one request, which also warms the server up.

    Raises:
        UnavailableError: when the server does not respond.
        UserError: when the request is refused.
    """
    request = PlannedRequest(0.0, workload.endpoint.encode("the first of them", tokens=2))
    (record,) = asyncio.run(run_open_loop(target, [request]))
    if record.error is None:
        return
    message = (
        f"{target.url}{target.path}: the first request of model {workload.endpoint.model!r} ended with {record.error}"
    )
    if record.error.isdecimal() and not may_pass(int(record.error)):
        raise UserError(f"{message}; check --model, --token-file and --endpoint")
    raise UnavailableError(f"{message}; start the server")


def _read_numbers(args: "Namespace") -> dict[str, int]:
    return {
        name: parse_number(name, getattr(args, name.replace("-", "_")), most, least)
        for name, (least, most, _, _) in NUMBERS.items()
    }


if __name__ == "__main__":
    step.run(parser(), body)
