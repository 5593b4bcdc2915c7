from datetime import UTC, datetime

import pytest

from components.reporting.formats import FILTERS


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("count", 1_754_155, "1,754,155"),
        ("score", 0.63951, "0.640"),
        ("percent", 0.0, "0.0 %"),
        ("percent", 0.00704, "0.70 %"),
        ("percent", 1.0, "100.0 %"),
        ("percent", 0.00661, "0.66 %"),
        ("percent", 0.0000017, "0.00017 %"),
        ("seconds", 0.04, "0.0 s"),
        ("seconds", 59.94, "59.9 s"),
        ("seconds", 59.97, "1 min 0 s"),
        ("seconds", 3661, "1 h 1 min"),
        ("size", 1_234_000_000, "1,234 MB"),
        ("flops", 9.1e9, "9.1 GFLOP/s"),
        ("flops", 12.0, "12 FLOP/s"),
        ("plain", -0.000123456, "-0.0001235"),
        ("plain", 123_456.7, "123,457"),
    ],
)
def test_a_figure_is_short_to_see_and_exact_to_read(name, value, text):
    assert FILTERS[name](value) == f'<data value="{value}">{text}</data>'


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_what_is_not_known_is_a_dash(name):
    assert FILTERS[name](None) == '<span class="none">&ndash;</span>'


def test_times_are_shown_to_the_minute():
    assert FILTERS["moment"](datetime(2026, 11, 20, 2, 10, 59, tzinfo=UTC)) == "2026-11-20 02:10 UTC"
