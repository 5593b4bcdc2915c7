"""The workload: an open loop, whose requests arrive at random times, whether or not earlier ones have completed."""

import json
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightshift.runtime.errors import UserError
from nightshift.stats.latency import poisson_schedule

Integers = npt.NDArray[np.int64]

FORMS = "N, uniform:LOW,HIGH or lognormal:MEDIAN,SIGMA"
NUMBER = r"(\d{1,7})"
# words that are one token of most vocabularies, with the space before it
COMMON = (
    "the of and to in that was his he it with is for as had you not be her on at by which have or from this him but"
)
WORDS = COMMON.split()


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths.

    Attributes:
        text: as the flag names it.
        low: of a uniform distribution; the median of a lognormal one.
        high: of a uniform distribution; None for a lognormal one.
        sigma: standard deviation of the logarithm.
    """

    text: str
    low: int
    high: int | None
    sigma: float = 0.0

    @classmethod
    def parse(cls, flag: str, text: str) -> "Lengths":
        """Parse a flag.

        Raises:
            UserError: naming it and the forms that are allowed.
        """
        if match := re.fullmatch(NUMBER, text):
            low = high = int(match[1])
            lengths = cls(text, low, high)
        elif match := re.fullmatch(f"uniform:{NUMBER},{NUMBER}", text):
            lengths = cls(text, int(match[1]), int(match[2]))
        elif match := re.fullmatch(rf"lognormal:{NUMBER},(\d(?:\.\d+)?)", text):
            lengths = cls(text, int(match[1]), None, float(match[2]))
        else:
            raise UserError(f"{flag} is {text!r}; allowed are {FORMS}")
        if lengths.low < 1 or (lengths.high is not None and lengths.high < lengths.low):
            raise UserError(f"{flag} is {text!r}; give lengths of at least 1, the lower one first")
        return lengths

    def draw(self, random: np.random.Generator, count: int) -> Integers:
        """Return a sample of lengths, each at least 1."""
        if self.high is not None:
            return random.integers(self.low, self.high + 1, count)
        drawn = random.lognormal(np.log(self.low), self.sigma, count)
        return np.maximum(np.rint(drawn), 1).astype(np.int64)


@dataclass(frozen=True)
class Endpoint:
    """The API and the model of requests.

    Attributes:
        path: path of the API.
        model: model name in requests.
    """

    path: str
    model: str

    def encode(self, prompt: str, tokens: int) -> bytes:
        """Return the body of a request for a stream of exactly this many tokens; engines support `ignore_eos`."""
        is_chat = self.path.endswith("chat/completions")
        content = {"messages": [{"role": "user", "content": prompt}]} if is_chat else {"prompt": prompt}
        options = {"max_tokens": tokens, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        return json.dumps({"model": self.model, **content, **options}).encode()


@dataclass(frozen=True)
class PlannedRequest:
    """A request of the open loop.

    Attributes:
        due: seconds since the start.
        body: JSON.
    """

    due: float
    body: bytes


@dataclass(frozen=True)
class Workload:
    """The distribution of requests.

    Attributes:
        endpoint: API and model.
        prompts: words per prompt.
        outputs: tokens per completion.
        seed: seed of texts, lengths and arrival times; times scale with the rate.
    """

    endpoint: Endpoint
    prompts: Lengths
    outputs: Lengths
    seed: int = 0

    def plan(self, rate: float, seconds: float) -> list[PlannedRequest]:
        """Return the requests of a measurement, in order of time.

        Args:
            rate: mean requests per second.
            seconds: duration of the measurement.
        """
        times, random = poisson_schedule(rate, seconds, self.seed), np.random.default_rng(self.seed)
        prompts, outputs = (lengths.draw(random, len(times)) for lengths in (self.prompts, self.outputs))
        return [
            PlannedRequest(due, self.endpoint.encode(write_prompt(random, int(words)), int(tokens)))
            for due, words, tokens in zip(times, prompts, outputs, strict=True)
        ]


def write_prompt(random: np.random.Generator, words: int) -> str:
    """Return a text of a number of words with a unique beginning, so that prefix caches miss."""
    return " ".join(random.choice(WORDS, words))
