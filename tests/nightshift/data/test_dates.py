"""A day has one spelling, since it names locks, runs and partitions."""

from datetime import date
from typing import Any

import pytest

from nightshift.config import parse
from nightshift.data.dates import parse_date
from nightshift.runtime.errors import UserError
from pipelines import configs

OTHERWISE = [
    *(
        "20250310",
        "2025-W11-1",
        "2025-069",
        "2025-3-10",
        "2025-03-10T00:00",
        "2025-03-10 ",
        " 2025-03-10",
        "2025/03/10",
    ),
    *("+2025-03-10", "10.03.2025", "2025-03-10\n", "\uff12\uff10\uff12\uff15-03-10", "2025\u201003\u201010", "today"),
    *("2025-02-30", "now", "", "1899-12-31", "2200-01-01", "0001-01-01", "9999-12-31", "12025-03-10"),
]


@pytest.mark.parametrize("text", OTHERWISE)
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"^date is .*; (write a day as YYYY-MM-DD|give a day from 1900-01-01 to)"):
        parse_date(text)
    config: dict[str, Any] = configs.load("fraud")
    with pytest.raises(UserError, match=r"simulator\.drift_from: date is "):
        parse(config | {"simulator": config["simulator"] | {"drift_from": text}})


@pytest.mark.parametrize("text", ["1900-01-01", "2024-02-29", "2025-03-10", "2199-12-31"])
def test_the_one_spelling_is_read(text: str) -> None:
    assert parse_date(text) == date(*map(int, text.split("-")))
