"""Reports as Presidio's analyzer finds identifiers in them; loading its language model takes seconds."""

import re
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift_image_text.deidentification.corpus.headers import write_header
from nightshift_image_text.deidentification.corpus.identities import draw_identity, read_names
from nightshift_image_text.deidentification.corpus.reports import read_templates, write_report
from nightshift_image_text.deidentification.counts import Identifier
from nightshift_image_text.deidentification.known import KnownIdentifiers, read_known
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms
from nightshift_image_text.deidentification.remains import find_left
from nightshift_image_text.deidentification.text import clean_text

PSEUDONYMS = Pseudonyms(b"a key of the tests only")
KNOWN = KnownIdentifiers(
    "7", names=frozenset(["Okafor^Mei"]), identifiers=frozenset(["7712345"]), born=date(1950, 3, 4)
)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("MRN: 48392011, accession no. RAD-881234", "48392011 881234"),
        ("Read by Anna Larsen, MD. Discussed with Dr. Novak.", "Anna Larsen Novak"),
        ("Seen at Oakdale General Hospital and at the University of Riverton.", "Oakdale Riverton"),
        ("Pager 5550, phone (212) 555-0199, a.b@example.org", "5550 0199 example"),
        ("A 94-year-old woman, DOB 03/04/1950.", "94 1950"),
        ("Lives at 12 Miller Street, Springfield, IL 62704.", "Miller Springfield 62704"),
        ("mei okafor's kidney, OKAFOR^MEI, 7712345", "okafor mei 7712345"),
    ],
)
def test_what_identifies_is_masked(text: str, masked: str) -> None:
    cleaned, counts = clean_text(text, KNOWN, PSEUDONYMS)
    assert [word for word in masked.split() if word.lower() in cleaned.lower()] == []
    assert counts.total() >= 1


@pytest.mark.parametrize(
    "text",
    [
        "A nodule of 12 x 14 mm measures 35 Hounsfield units; Kerley B lines, Baker cyst, L4-L5 disc, T2 FLAIR.",
        "120 kVp, CTDIvol 12.31 mGy, DLP 430 mGy-cm, 100 mL of Omnipaque 350, b = 1000, grade 3/4, at 14:35.",
        "A 64-year-old man. BI-RADS 2, Fleischner criteria, eGFR 58 mL/min/1.73 m2. No pneumothorax.",
    ],
)
def test_words_of_medicine_stay(text: str) -> None:
    assert clean_text(text, KNOWN, PSEUDONYMS)[0] == text


def test_dates_move_by_the_days_of_the_patient() -> None:
    text, _ = clean_text("Studies of 2024-03-10 and 12 March 2024.", KNOWN, PSEUDONYMS)
    first, second = re.fullmatch(r"Studies of (\S+) and (.*)\.", text).groups()  # type: ignore[union-attr]
    days = PSEUDONYMS.days("7")
    assert date.fromisoformat(first).toordinal() == date(2024, 3, 10).toordinal() + days
    assert second.endswith(("2023", "2024"))


@pytest.mark.parametrize("seed", range(4))
def test_nothing_known_is_left_in_a_planted_report(seed: int) -> None:
    rng = np.random.default_rng(seed)
    identity = draw_identity(rng, read_names())
    known = read_known(write_header(rng, identity))
    report = write_report(rng, identity, read_templates())
    cleaned, counts = clean_text(report.text, known, PSEUDONYMS)
    assert not find_left(known, text=cleaned)
    assert find_left(known, text=report.text)[Identifier.NAME] > 0
    assert counts[Identifier.NAME] > 0


@settings(max_examples=10, deadline=None)
@given(
    name=st.text("abcdefghijklmnopqrstuvwxyzäöüéñ", min_size=3, max_size=10).map(str.title),
    form=st.sampled_from(["{} has a cyst.", "No change ({}).", "LUNGS CLEAR, {}", "see\n{}\nabove", "{}'s scan"]),
)
def test_a_known_name_is_found_wherever_it_stands(name: str, form: str) -> None:
    known = KnownIdentifiers("1", names=frozenset([f"{name}^Qx"]))
    cleaned, _ = clean_text(form.format(name), known, PSEUDONYMS)
    assert not find_left(known, text=cleaned)
