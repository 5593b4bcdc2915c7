from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom.uid import UID

from nightshift.runtime.errors import UserError
from nightshift_image_text.deidentification import dates
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms

KEY = b"a key of the tests only"


@settings(max_examples=20, deadline=None)
@given(st.text(), st.binary(min_size=16))
def test_a_patient_keeps_a_pseudonym_and_another_key_gives_another(text: str, key: bytes) -> None:
    assert Pseudonyms(key).name(text) == Pseudonyms(key).name(text) != Pseudonyms(key + b"x").name(text)


@settings(max_examples=20, deadline=None)
@given(st.text())
def test_pseudonyms_are_valid_in_dicom_and_dates_move_to_the_past(text: str) -> None:
    pseudonyms = Pseudonyms(KEY)
    assert UID(pseudonyms.uid(text)).is_valid
    assert len(pseudonyms.name(text)) == 16
    assert -365 <= pseudonyms.days(text) <= -1


def test_a_short_key_is_refused_and_no_key_is_printed() -> None:
    with pytest.raises(UserError, match="has 3 bytes; it needs at least 16"):
        Pseudonyms(b"key")
    assert KEY.decode() not in repr(Pseudonyms(KEY))


@settings(max_examples=20, deadline=None)
@given(
    st.dates(date(1970, 1, 1), date(2060, 1, 1)),
    st.integers(1, 5000),
    st.sampled_from(["%Y-%m-%d", "%m/%d/%Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%Y%m%d"]),
    st.integers(-365, -1),
)
def test_dates_keep_their_distances_in_the_form_they_are_written_in(
    day: date, later: int, form: str, days: int
) -> None:
    moved = [dates.shift_date(original.strftime(form), days) for original in (day, day + timedelta(days=later))]
    readings = [dates.read_date(text) for text in moved if text]
    assert [reading and reading[1] for reading in readings] == [form, form]
    first, second = (reading[0] for reading in readings if reading)
    assert (second - first).days == later
    assert first == day + timedelta(days=days)


def test_what_is_no_date_is_not_moved() -> None:
    assert dates.shift_date("31 February 2024", -3) is None
