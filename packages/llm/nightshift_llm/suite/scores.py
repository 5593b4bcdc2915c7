"""The scores of a served model on the suite."""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from tokenizers import Tokenizer

from nightshift import storage
from nightshift.stats.comparison import estimate_mean
from nightshift_llm.contracts.suite import SuiteMetric, SuiteScores
from nightshift_llm.suite.endpoint import (
    CONNECTIONS,
    CompletionEndpoint,
    Likelihood,
    LikelihoodReader,
    open_reader,
    split_tokens,
)
from nightshift_llm.suite.harness import MAX_TOKENS, STOP, WORDS
from nightshift_llm.suite.items import CHOICE, CLOZE, COMPLETION, Suite, SuiteItem

Score = TypeVar("Score")


def score_suite(endpoint: CompletionEndpoint, tokenizer: Tokenizer, suite: Suite) -> SuiteScores:
    """Score a served model.

    Args:
        endpoint: of the server.
        tokenizer: of the model.
        suite: task -> items.

    Raises:
        UserError: when the server refuses a request, or reports no log-probabilities.
        UnavailableError: when it does not answer.
    """
    sample = tokenizer.encode(suite[CHOICE][0].context).ids
    scorer = SuiteScorer(endpoint, open_reader(endpoint, sample), tokenizer)
    items = msgspec.to_builtins({name: list(items) for name, items in suite.items()})
    return SuiteScores(
        model=endpoint.model, suite_sha256=storage.fingerprint(items), metrics=list(scorer.list_metrics(suite))
    )


@dataclass(frozen=True)
class SuiteScorer:
    """Scores items at a server, several at once."""

    endpoint: CompletionEndpoint
    reader: LikelihoodReader
    tokenizer: Tokenizer

    def list_metrics(self, suite: Suite) -> Iterator[SuiteMetric]:
        """Yield the metrics of all tasks."""
        yield _describe(f"{CHOICE}_acc_norm", self._map(self.choose, suite[CHOICE]))
        words = self._map(self.measure_target, suite[CLOZE])
        yield _describe(f"{CLOZE}_acc", [word.is_greedy for word in words])
        yield _describe(f"{CLOZE}_nats", [-word.nats for word in words], higher_is_better=False)
        yield _describe(f"{COMPLETION}_exact_match", self._map(self.complete, suite[COMPLETION]))

    def choose(self, item: SuiteItem) -> bool:
        """Return whether the right choice has the highest log-likelihood, divided by its characters."""
        nats = [self._measure(item.context, choice).nats / len(choice) for choice in item.choices]
        return int(np.argmax(nats)) == item.answer

    def measure_target(self, item: SuiteItem) -> Likelihood:
        """Return how likely the document's own continuation is."""
        return self._measure(item.context, item.target)

    def complete(self, item: SuiteItem) -> bool:
        """Return whether the model generates the next words."""
        tokens = self.tokenizer.encode(item.context).ids
        match = re.match(WORDS, self.endpoint.complete(tokens, MAX_TOKENS, stop=[STOP]).text)
        return match is not None and match[1] == item.target.strip()

    def _measure(self, context: str, continuation: str) -> Likelihood:
        return self.reader.measure(*split_tokens(self.tokenizer, context, continuation))

    def _map(self, score: Callable[[SuiteItem], Score], items: Sequence[SuiteItem]) -> list[Score]:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            return list(pool.map(score, items))


def _describe(name: str, items: Sequence[float], *, higher_is_better: bool = True) -> SuiteMetric:
    mean = estimate_mean(np.array(items, dtype=float))
    return SuiteMetric(
        name=name,
        higher_is_better=higher_is_better,
        value=mean.value,
        interval=(mean.low, mean.high),
        items=[float(item) for item in items],
    )
