"""A model is held to its promise by texts that nobody labels."""

import pandas as pd
import pytest

from nightshift.contracts.drift import Promise
from nightshift_llm.config import LanguageDriftLimits
from nightshift_llm.task.drift import compare_with_promise

PROMISE = Promise(metric="bits_per_byte", value=2.0, measured="when it was evaluated")
LIMITS = LanguageDriftLimits(bits_per_byte=0.1, min_rows=20)


@pytest.mark.parametrize(("bits", "raised"), [(200, False), (209, False), (211, True), (150, False)])
def test_texts_that_cost_more_than_promised_raise_the_signal(bits, raised):
    signal = compare_with_promise(pd.DataFrame({"bits": [bits] * 20, "bytes": [100] * 20}), PROMISE, LIMITS)
    assert (signal.name, signal.raised) == ("performance", raised)
    assert signal.value == pytest.approx(bits / 100 - 2)


def test_long_texts_count_more_than_short_ones():
    scored = pd.DataFrame({"bits": [1000.0, *[2.0] * 19], "bytes": [1000, *[1] * 19]})
    assert compare_with_promise(scored, PROMISE, LIMITS).value == pytest.approx(1038 / 1019 - 2)


def test_few_texts_raise_nothing():
    signal = compare_with_promise(pd.DataFrame({"bits": [900] * 19, "bytes": [100] * 19}), PROMISE, LIMITS)
    assert (signal.value, signal.raised) == (None, False)
    assert signal.reason == "19 new texts; at least 20 are needed to judge the model."
