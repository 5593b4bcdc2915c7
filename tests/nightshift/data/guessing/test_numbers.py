import pandas as pd
import pytest

from nightshift.data.guessing import numbers


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


def test_amounts_of_several_currencies_are_for_the_user_to_convert() -> None:
    reasons = [numbers.guess({"price": pd.Series(prices)}, ";").reasons for prices in (["$5", "7 €"], ["5 €", "7 €"])]

    assert ["convert the amounts" in " ".join(sentences) for sentences in reasons] == [True, False]
