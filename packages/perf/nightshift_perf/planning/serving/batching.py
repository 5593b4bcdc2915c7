"""What continuous batching makes of a replica: times a client sees, and tokens a second.

Each forward pass gives every decoding request its next token and reads a whole prompt, or several, as vLLM schedules
prompts that fit its budget of tokens. With `n` requests in flight, each of `output` tokens, a cycle of `output` steps
reads `n` prompts (a mean-field count, as in AIConfigurator's): at most one a step, unless there are more requests than
steps. Requests are of one length.
"""

import math
from dataclasses import dataclass

from nightshift_perf.planning.serving.replica import ForwardPass, ServingReplica

TAIL = 0.01  # share of the requests that may be slower than the 99th percentile


@dataclass(frozen=True)
class RequestLength:
    """Length of a request.

    Attributes:
        prompt: tokens in.
        output: tokens out.
    """

    prompt: int
    output: int


@dataclass(frozen=True)
class OperatingPoint:
    """A replica that keeps a number of requests in flight.

    Attributes:
        concurrency: requests in flight.
        idle_first_token: seconds to the first token of a request that finds the replica idle.
        first_token: mean seconds to the first token.
        first_token_p99: 99th percentile, if requests arrive at random moments; infinite where prompts alone fill it.
        token: mean seconds per further token.
        rate: requests per second that it finishes.
        waiting: mean number of requests whose prompt waits for others; infinite where prompts alone fill it.
    """

    concurrency: int
    idle_first_token: float
    first_token: float
    first_token_p99: float
    token: float
    rate: float
    waiting: float


def operate(replica: ServingReplica, request: RequestLength, concurrency: int) -> OperatingPoint:
    """Return the times and the rate of a replica with so many requests in flight."""
    context = request.prompt + request.output / 2
    mixing = min(concurrency, request.output)  # passes of a cycle that read prompts
    prompts = concurrency / mixing
    mixed = replica.estimate_seconds(ForwardPass(request.prompt, concurrency - prompts, context, prompts))
    decode = replica.estimate_seconds(ForwardPass(0, concurrency, context))
    promptless = (request.output - mixing) * decode  # seconds of a cycle's passes without a prompt
    cycle = mixing * mixed + promptless
    token = ((mixing - 1) * mixed + promptless) / (request.output - 1) if request.output > 1 else 0.0
    dispatch = replica.efficiency.dispatch * replica.model.layers
    first = (dispatch + mixed) * (1 + math.log2(concurrency) / replica.efficiency.queue)
    # by Little's law no more than this many finish, however short the cycle
    rate = concurrency / max(cycle, first + token * (request.output - 1))
    return OperatingPoint(
        concurrency=concurrency,
        idle_first_token=dispatch + replica.estimate_seconds(ForwardPass(request.prompt, 0)),
        first_token=first,
        first_token_p99=max(first, dispatch + decode + mixed + estimate_wait_p99(mixed / prompts, rate)),
        token=token,
        rate=rate,
        waiting=rate * estimate_mean_wait(mixed / prompts, rate),
    )


def estimate_mean_wait(service: float, rate: float) -> float:
    """Return the mean wait in a queue for one server with random arrivals (M/D/1), in seconds.

    Args:
        service: seconds that each takes.
        rate: arrivals per second.
    """
    busy = service * rate
    return math.inf if busy >= 1 else busy * service / (2 * (1 - busy))


def estimate_wait_p99(service: float, rate: float) -> float:
    """Return the 99th percentile of the wait in a queue for one server, in seconds.

    Arrivals are random (Poisson) and all take as long: M/D/1, whose wait has the mean rho s / 2 (1 - rho) and is taken
    to be exponential beyond 0 (Kingman's approximation).

    Args:
        service: seconds that each takes.
        rate: arrivals per second.
    """
    busy = service * rate
    if busy >= 1:
        return math.inf
    return service / (2 * (1 - busy)) * max(0.0, math.log(busy / TAIL))
