"""The generator against the hash of the published rows."""

import hashlib

import numpy as np
import pytest

from benchmarks import published

pytestmark = pytest.mark.slow

PUBLISHED = "e2f69b1be19a6b4b535c4de653bf11e538a4ead82710667bc247329cb0f87d2c"


def test_the_generator_reproduces_the_published_transactions():
    frame = published.transactions()
    columns = ["TX_TIME_SECONDS", "CUSTOMER_ID", "TERMINAL_ID", "TX_AMOUNT", "TX_FRAUD", "TX_FRAUD_SCENARIO"]
    cents = frame[columns].assign(TX_AMOUNT=(100 * frame["TX_AMOUNT"]).round())
    rows = np.ascontiguousarray(cents.to_numpy().astype("<i8"))
    ordered = rows[np.lexsort(rows.T[::-1])]
    assert hashlib.sha256(ordered.tobytes()).hexdigest() == PUBLISHED
    assert frame["TX_DATETIME"].is_monotonic_increasing
    assert str(frame["TX_DATETIME"].iloc[-1].date()) == "2018-09-30"
