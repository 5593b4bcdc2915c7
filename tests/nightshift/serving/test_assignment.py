"""Who is answered by a challenger."""

import numpy as np
from scipy import stats

from nightshift.serving.assignment import bucket, is_answered

CUSTOMERS = [f"customer-{number}" for number in range(20_000)]


def test_places_are_uniform_and_drawn_anew_for_each_release():
    one, other = (np.array([bucket(salt, entity) for entity in CUSTOMERS]) for salt in ("a", "b"))
    assert one.min() >= 0 and one.max() < 1
    assert stats.kstest(one, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
    assert bucket("a", "customer-0") == 0.2094380983671642  # on every machine, in every version of Python


def test_whom_the_challenger_answers_it_goes_on_answering_as_its_share_grows():
    groups = [{name for name in CUSTOMERS if is_answered("b", share, name)} for share in (0, 0.05, 0.25, 0.5)]
    assert groups[0] == set()
    assert groups[1] < groups[2] < groups[3]
    assert np.allclose([len(group) / len(CUSTOMERS) for group in groups], [0, 0.05, 0.25, 0.5], atol=0.01)
