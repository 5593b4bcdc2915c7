from datetime import UTC, datetime

import pytest

from nightshift.contracts.section import Estimate
from nightshift.drawing.formats import format_cell, moment
from nightshift.stats.figures import WRITERS, format_value


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
        ("plain", -0.000123456, "-0.000123"),
        ("plain", 123_456.7, "123,457"),
    ],
)
def test_a_figure_is_short_to_see_and_exact_to_read(name, value, text):
    assert format_cell(value, name) == f'<data value="{value}">{text}</data>'
    assert format_value(value, name) == text


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_what_is_not_known_is_a_dash(name):
    assert format_cell(None, name) == '<span class="none">&ndash;</span>'
    assert format_value(None, name) == "-"


def test_a_line_may_end_after_a_slash_of_a_path_and_nowhere_else():
    shown = format_cell("/runs/fraud-training-2026-11-25/<model>.json", "code")

    assert shown == "<code>/<wbr>runs/<wbr>fraud-training-2026-11-25/<wbr>&lt;model&gt;.json</code>"


def test_an_interval_stands_in_brackets():
    assert format_value(Estimate(value=541.7, low=391.2, high=702.8), "plain") == "542 [391, 703]"
    bounds = '<span class="interval">[0.61, 0.70]</span>'
    assert format_cell(Estimate(value=0.6579, low=0.61, high=0.7), "score").endswith(bounds)


def test_times_are_shown_to_the_minute():
    assert moment(datetime(2026, 11, 20, 2, 10, 59, tzinfo=UTC)) == "2026-11-20 02:10 UTC"
