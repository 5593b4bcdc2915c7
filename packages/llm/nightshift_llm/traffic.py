"""Drift of a served model's requests, from the gateway's log: lengths, prompts, refusals and errors.

A limit is an effect size, or the effect of chance in samples of these sizes, whichever is larger.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from http import HTTPStatus
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.config.policy import EmbeddingDriftLimits
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.stats import embeddings, shift
from nightshift.stats.embeddings import EffectSize
from nightshift.stats.proportions import wilson_interval
from nightshift_llm.gateway.request_log import INTERRUPTED, RequestRecord, read_records

Floats = npt.NDArray[np.floating[Any]]

MIN_REQUESTS = 100  # requests of each side, to decide
MAX_REQUESTS = 2000  # whose sketches are compared, all with all
RISE = 0.02  # rise of a share of requests
LIMITS = EmbeddingDriftLimits()
OUTCOMES: Mapping[str, Callable[[RequestRecord], bool]] = {
    "errors": lambda record: record.status >= HTTPStatus.INTERNAL_SERVER_ERROR,
    "refused": lambda record: HTTPStatus.BAD_REQUEST <= record.status < HTTPStatus.INTERNAL_SERVER_ERROR,
    "interrupted": lambda record: record.code == INTERRUPTED,
    "declined": lambda record: record.is_declined,
}


def compare_days(folder: str, day: date, reference_days: int) -> Verdict:
    """Return the verdict of the gate `live_prompts` on a day, compared with the days before it.

    Args:
        folder: folder of the gateway's request log.
        day: UTC day to check.
        reference_days: number of preceding days to compare with.

    Raises:
        UserError: when a file is not a log.
    """
    before = [day - timedelta(days=number) for number in range(reference_days, 0, -1)]
    reference = [record for earlier in before for record in read_records(folder, earlier.isoformat())]
    return compare_requests(reference, read_records(folder, day.isoformat()), day.isoformat())


def compare_requests(reference: Sequence[RequestRecord], newest: Sequence[RequestRecord], subject: str) -> Verdict:
    """Return the verdict of the gate `live_prompts`: `fail` where a measure is beyond its limit.

    Args:
        reference: earlier requests.
        newest: requests to compare with them.
        subject: name of the newest ones.
    """
    sides = [[record for record in side if record.sketch] for side in (reference, newest)]
    if min(map(len, sides)) < MIN_REQUESTS:
        before, now = map(len, sides)
        reason = f"{now} answers, and {before} before; at least {MIN_REQUESTS} of each are needed to decide."
        return _conclude(Decision.UNDECIDED, [reason], [], subject)
    measures = [
        *compare_outcomes(reference, newest),
        *compare_columns(*map(tabulate_prompts, sides)),
        *compare_columns(*map(tabulate_tokens, sides)),
        *compare_sketches(*map(stack_sketches, sides)),
    ]
    raised = [measure for measure in measures if is_raised(measure)]
    reasons = [f"{one.name.replace('_', ' ')} is {one.value:.3f}, above {one.limit:.3f}." for one in raised]
    quiet = f"{len(sides[1])} answers are like the {len(sides[0])} before them."
    return _conclude(Decision.FAIL if raised else Decision.PASS, reasons or [quiet], measures, subject)


def compare_outcomes(reference: Sequence[RequestRecord], newest: Sequence[RequestRecord]) -> Iterator[Measure]:
    """Yield the shares of requests that ended badly; the low end of the interval is held to the limit."""
    for name, is_one in OUTCOMES.items():
        before, count = sum(map(is_one, reference)) / len(reference), sum(map(is_one, newest))
        interval = wilson_interval(count, len(newest))
        yield Measure(
            name=name,
            value=count / len(newest),
            limit=before + RISE,
            interval=(interval.low, interval.high),
            higher_is_better=False,
        )


def compare_columns(reference: pd.DataFrame, newest: pd.DataFrame) -> Iterator[Measure]:
    """Yield the shifts of lengths or tokens; none for too few requests."""
    if min(len(reference), len(newest)) < MIN_REQUESTS:
        return
    psi, distance = shift.find_chance_limits(len(reference), len(newest))
    for column in shift.compare(reference, [newest], reference.columns, LIMITS):
        yield _measure(f"psi_{column.name}", column.psi, max(LIMITS.psi, psi))
        if column.wasserstein is not None:
            yield _measure(f"wasserstein_{column.name}", column.wasserstein, max(LIMITS.wasserstein, distance))


def compare_sketches(reference: Floats, newest: Floats) -> Iterator[Measure]:
    """Yield the shifts of prompts, measured on their sketches, (n, buckets)."""
    reference, (newest,) = embeddings.standardize(_thin_out(reference), [_thin_out(newest)])
    ((_, novelty),) = embeddings.novelties(reference, [newest])
    yield _hold(novelty, "novelty", LIMITS.novelty)
    yield _hold(embeddings.separability(reference, newest), "domain_classifier", LIMITS.domain_classifier)
    yield _hold(embeddings.discrepancy(reference, newest), "mmd", LIMITS.mmd)


def tabulate_prompts(records: Sequence[RequestRecord]) -> pd.DataFrame:
    """Return the lengths of answered requests, n rows."""
    return pd.DataFrame({"prompt_bytes": [float(record.prompt_bytes) for record in records]})


def tabulate_tokens(records: Sequence[RequestRecord]) -> pd.DataFrame:
    """Return the tokens of those answered requests whose engine has counted them, at most n rows."""
    counted = [record for record in records if record.prompt_tokens]
    columns = {
        "prompt_tokens": [float(record.prompt_tokens) for record in counted],
        "completion_tokens": [float(record.completion_tokens) for record in counted],
        "bytes_per_token": [record.prompt_bytes / record.prompt_tokens for record in counted],
    }
    return pd.DataFrame(columns)


def stack_sketches(records: Sequence[RequestRecord]) -> Floats:
    """Return the sketches of answered requests as directions, float64 (n, buckets): a prompt's length is left out."""
    roots = np.sqrt(np.array([record.sketch for record in records], dtype=float))
    directions: Floats = roots / np.maximum(np.linalg.norm(roots, axis=1, keepdims=True), 1)
    return directions


def is_raised(measure: Measure) -> bool:
    """Return whether a measure is significantly beyond its limit."""
    low = measure.interval[0] if measure.interval else measure.value
    return low is not None and measure.limit is not None and low > measure.limit


def _thin_out(sketches: Floats) -> Floats:
    return sketches[:: -(-len(sketches) // MAX_REQUESTS)]


def _hold(effect: EffectSize, name: str, limit: float) -> Measure:
    return _measure(name, effect.value, max(limit, effect.chance))


def _measure(name: str, value: float, limit: float) -> Measure:
    return Measure(name=name, value=value, limit=limit, higher_is_better=False)


def _conclude(decision: Decision, reasons: list[str], measures: list[Measure], subject: str) -> Verdict:
    return Verdict(
        gate="live_prompts", decision=decision, reasons=reasons, measures=measures, subject=subject, advisory=True
    )
