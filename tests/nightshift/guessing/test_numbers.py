import pandas as pd
import pytest

from nightshift.guessing import numbers


@pytest.mark.parametrize(
    ("common", "rare", "marks"),
    [
        ("12.50", "1,250.00", (".", ",")),
        ("12,50", "1.250,00", (",", ".")),
        ("12,50", "1 250,00", (",", " ")),
        ("12.50", "1'250.00", (".", "'")),
    ],
)
def test_a_mark_between_thousands_is_noticed_however_few_values_are_that_large(
    common: str, rare: str, marks: tuple[str, str]
) -> None:
    guessed = numbers.guess({"amount": pd.Series([common] * 999 + [rare]), "items": pd.Series(["3"] * 1000)}, ";")

    assert (guessed.spelled.decimal, guessed.spelled.thousands) == marks
    assert guessed.columns == ["amount", "items"]
