"""The gate of speed: seldom a false alarm, and what is slower is found."""

import numpy as np
import pytest

from nightshift.contracts.verdict import Decision
from nightshift.stats import performance

PAIRS = 400


def pairs(random: np.random.Generator, times: float = 1.0, noise: float = 0.1) -> list[float]:
    """Ratios of two sides with the same heavy-tailed noise, of which one takes so many times as long."""
    return list(times * np.exp(noise * random.standard_t(3, PAIRS)))


def test_a_kernel_on_the_limit_seldom_fails_however_often_one_looks() -> None:
    random = np.random.default_rng(0)
    decisions = [performance.decide(pairs(random, 1 + performance.TOLERANCE), 0.05) for _ in range(1000)]

    # at most 5 % are allowed; the bound of the test is on the safe side
    assert decisions.count(Decision.FAIL) <= 50


def test_of_many_comparisons_of_a_model_with_itself_next_to_none_fails() -> None:
    random = np.random.default_rng(1)
    verdicts = [performance.judge({name: pairs(random) for name in "abc"}, "").decision for _ in range(200)]

    assert verdicts.count(Decision.FAIL) <= 200 * performance.FALSE_ALARMS
    assert verdicts.count(Decision.PASS) >= 190


@pytest.mark.parametrize("slower", "abc")
def test_one_kernel_that_is_slower_by_a_tenth_is_found_among_others(slower: str) -> None:
    random = np.random.default_rng(2)
    hits = 0
    for _ in range(100):
        measured = {name: pairs(random, 1.1 if name == slower else 1.0) for name in "abc"}
        verdict = performance.judge(measured, "")
        hits += verdict.decision is Decision.FAIL and [slower] == [reason.split()[0] for reason in verdict.reasons]

    assert hits >= 95


def test_too_few_pairs_decide_nothing() -> None:
    verdict = performance.judge({"a": [2.0] * 10, "b": [1.0] * 10}, "s" * 64)

    assert verdict.decision is Decision.UNDECIDED
    assert "a takes 2.000 times as long as the baseline's (10 pairs)" in verdict.reasons[0]
    assert (verdict.gate, verdict.subject, verdict.value("a")) == ("performance", "s" * 64, 2.0)


def test_what_is_faster_passes() -> None:
    assert performance.decide([0.9] * 200, 0.01) is Decision.PASS
