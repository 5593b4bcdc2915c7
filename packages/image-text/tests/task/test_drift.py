"""What drift says of pairs: words, new scanners and sites, and what has moved on one of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nightshift.contracts.drift import PREDICTED
from nightshift.data.dates import parse_date
from nightshift.items.labels import encode
from nightshift.items.shards import ItemTable, Shards
from nightshift_image_text.config import ImageTextDriftLimits
from nightshift_image_text.preprocessing import ImageTextPreprocessing
from nightshift_image_text.task import descriptors, drift, drift_reference
from nightshift_image_text.task.drift import ComparedPairs

LIMITS = ImageTextDriftLimits()
FINDINGS = ["nodule", "effusion"]


def draw(seed: int, count: int = 400, words: int = 200) -> ComparedPairs:
    """Pairs of two scanners that are drawn alike; of a report's twelve places, ten have words."""
    random = np.random.default_rng(seed)
    rows = pd.DataFrame(random.normal(size=(count, len(descriptors.NAMES))), columns=[*descriptors.NAMES])
    rows["scanner"] = np.where(np.arange(count) % 2, "old", "new")
    rows[PREDICTED] = [encode(name for name in FINDINGS if random.random() < 0.3) for _ in range(count)]
    rows["embedding"] = pd.Series([*random.normal(size=(count, 4))], dtype=object)
    tokens = np.zeros((count, 12), np.int32)
    tokens[:, :10] = random.integers(1, words, (count, 10))
    return ComparedPairs(rows, tokens, 0, FINDINGS)


BEFORE, NOW = draw(0), draw(1)
OLD = (NOW.rows["scanner"] == "old").to_numpy()


def compare(now: ComparedPairs, column: str = "scanner") -> dict[str, drift.Signal]:
    return {signal.name: signal for signal in drift.compare_parts(column, BEFORE, now, LIMITS)}


def change(values: dict[str, object]) -> ComparedPairs:
    return replace(NOW, rows=NOW.rows.assign(**values))


def test_pairs_that_are_drawn_alike_raise_nothing():
    assert not any(signal.raised for signal in compare(NOW).values())
    assert not any(signal.raised for signal in drift.compare_words(BEFORE, NOW, LIMITS))


def test_a_scanner_that_is_new_is_named_with_its_pairs():
    now = change({"scanner": NOW.rows["scanner"].where(~OLD | (np.arange(400) > 100), "Mark IV")})
    signal = compare(now)["new_scanner"]
    assert signal.raised
    assert signal.reason == "50 of 400 newest pairs are of a scanner that the reference has not: 'Mark IV' (50)."


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"brightness": NOW.rows["brightness"] + 2 * OLD}, "Of scanner 'old': brightness is"),
        ({PREDICTED: NOW.rows[PREDICTED].where(~OLD, encode(["effusion"]))}, "Of scanner 'old': effusion is predicted"),
        (
            {"embedding": pd.Series([*(np.stack(NOW.rows["embedding"]) + 9 * OLD[:, None])])},
            "Of scanner 'old': ",
        ),
    ],
)  # fmt: skip
def test_what_moves_on_one_scanner_alone_is_said_of_it(values, reason):
    signal = compare(change(values))["scanner"]
    assert signal.raised
    assert signal.reason.startswith(reason)


def test_words_that_no_report_has_had_are_seen():
    tokens = np.where((NOW.tokens > 0) & (np.arange(400)[:, None] < 60), NOW.tokens + 1000, NOW.tokens)
    (signal,) = drift.compare_words(BEFORE, replace(NOW, tokens=tokens), LIMITS)
    assert signal.raised and signal.value == pytest.approx(0.15, abs=0.01)
    assert signal.reason.startswith("15.0% of the words of a report are none of the 199 of the reference")


def test_words_that_are_new_in_every_report_anyway_raise_nothing():
    """Such as numbers: half of a report's words are its own, in the reference as well."""

    def number(pairs: ComparedPairs, first: int) -> ComparedPairs:
        tokens = pairs.tokens.copy()
        tokens[:, :5] = np.arange(first, first + 5 * len(tokens)).reshape(-1, 5)
        return replace(pairs, tokens=tokens)

    (signal,) = drift.compare_words(number(BEFORE, 1000), number(NOW, 9000), LIMITS)
    assert signal.value == pytest.approx(0, abs=0.01) and not signal.raised


def test_of_few_pairs_nothing_is_said():
    few = NOW.select(np.arange(400) < 10)
    assert list(drift.compare_words(BEFORE, few, LIMITS)) == []
    assert "scanner" not in compare(few)


def test_the_reference_has_scanners_and_words_of_its_own_rows():
    times = [parse_date("2024-03-01"), parse_date("2024-03-02")]
    rows = pd.DataFrame({"event_id": ["a", "a", "b"], "event_time": pd.to_datetime([times[0], times[1], times[1]])})
    rows["scanner"] = ["x", "y", "z"]
    shard = np.zeros(3, [("pixels", np.uint8, (2, 2, 1)), ("tokens", np.int32, (2,))])
    shard["tokens"] = [[1, 1], [2, 2], [3, 3]]
    described = rows.loc[[2, 1], ["event_id", "event_time"]].reset_index(drop=True).assign(tokens=2.0)
    added = drift_reference.add_parts(described, ItemTable(rows, Shards([shard])))
    assert added["scanner"].tolist() == ["z", "y"]
    assert added["tokens"].tolist() == [2, 2]  # how many, as `descriptors` has it
    assert [row.tolist() for row in added["words"]] == [[3, 3], [2, 2]]


def test_pixels_and_words_are_described_without_a_model():
    preprocessing = ImageTextPreprocessing.model_construct(pad=0)
    inputs = np.zeros(2, [("pixels", np.uint8, (4, 4, 1)), ("tokens", np.int32, (3,))])
    inputs["pixels"][1] = 200
    inputs["tokens"] = [[7, 7, 0], [1, 2, 3]]
    described = dict(zip(descriptors.NAMES, descriptors.describe(preprocessing, inputs), strict=True))
    assert described["brightness"].tolist() == [0, 200]
    assert (described["tokens"].tolist(), described["variety"].tolist()) == ([2, 3], [0.5, 1])
