from collections.abc import Sequence

import numpy as np
import pydicom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom import Dataset
from pydicom.data import get_testdata_file

from nightshift_image_text.deidentification.corpus.headers import list_secrets, write_header
from nightshift_image_text.deidentification.corpus.identities import draw_identity, read_names
from nightshift_image_text.deidentification.counts import Counts, Identifier, list_facts
from nightshift_image_text.deidentification.header import clean_header
from nightshift_image_text.deidentification.known import KnownIdentifiers, read_known, spell, walk
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms

PSEUDONYMS = Pseudonyms(b"a key of the tests only")
pytestmark = pytest.mark.filterwarnings("ignore:Invalid value for VR:UserWarning")


def write_study(seed: int) -> tuple[Dataset, Sequence[str]]:
    rng = np.random.default_rng(seed)
    identity = draw_identity(rng, read_names())
    return write_header(rng, identity), list_secrets(identity)


def spell_all(header: Dataset) -> str:
    return "\n".join(spell(element) for element in [*walk(header), *walk(header.file_meta)])


@pytest.mark.parametrize("seed", range(5))
def test_nothing_of_a_planted_identity_is_left_in_a_header(seed: int) -> None:
    header, secrets = write_study(seed)
    before = spell_all(header)
    cleaned, counts = clean_header(header, PSEUDONYMS)
    after = spell_all(cleaned).lower()
    assert [secret for secret in secrets if secret.lower() in after] == []
    assert spell_all(header) == before, "the header that was read is not changed"
    assert cleaned.PatientIdentityRemoved == "YES"
    kinds = {
        Identifier.PRIVATE,
        Identifier.NAME,
        Identifier.IDENTIFIER,
        Identifier.DATE,
        Identifier.UID,
        Identifier.OVERLAY,
        Identifier.DOCUMENT,
    }
    assert kinds <= set(counts)


def test_a_real_file_stays_readable_and_its_pixels_the_same() -> None:
    image = pydicom.dcmread(str(get_testdata_file("CT_small.dcm")))
    cleaned, _ = clean_header(image, PSEUDONYMS)
    assert np.array_equal(cleaned.pixel_array, image.pixel_array)
    assert "JFK" not in spell_all(cleaned)
    assert cleaned.StudyDate < image.StudyDate


def test_dates_of_a_patient_move_together_and_uids_stay_related() -> None:
    header, _ = write_study(1)
    header.SeriesDate = "20200110"
    header.ContentDate = "20200105"
    cleaned, _ = clean_header(header, PSEUDONYMS)
    assert int(cleaned.SeriesDate[-2:]) - int(cleaned.ContentDate[-2:]) in {5, 5 - 31, 5 - 30, 5 - 28, 5 - 29}
    assert (
        cleaned.SOPInstanceUID == cleaned.file_meta.MediaStorageSOPInstanceUID == PSEUDONYMS.uid(header.SOPInstanceUID)
    )
    assert cleaned.SOPClassUID == header.SOPClassUID


@settings(max_examples=8, deadline=None)
@given(
    name=st.text("abcdefghijklmnopqrstuvwxyz", min_size=5, max_size=12),
    keyword=st.sampled_from(["Manufacturer", "BodyPartExamined", "ProtocolName", "ImageType", "PatientOrientation"]),
    is_nested=st.booleans(),
)
def test_a_name_is_found_under_whatever_tag_it_stands(name: str, keyword: str, is_nested: bool) -> None:
    header, _ = write_study(2)
    header.PatientName = f"Xq{name}^Zx{name}"
    item = header.SharedFunctionalGroupsSequence[0] if is_nested else header
    setattr(item, keyword, f"xq{name}".upper())
    cleaned, _ = clean_header(header, PSEUDONYMS)
    assert f"xq{name}" not in spell_all(cleaned).lower()


def test_a_name_where_a_number_belongs_is_left_out() -> None:
    header, _ = write_study(3)
    tag = pydicom.tag.Tag("InstanceNumber")
    name = str(header.PatientName.family_name).encode()
    header._dict[tag] = pydicom.dataelem.RawDataElement(tag, "IS", len(name), name, 0, False, True)
    cleaned, _ = clean_header(header, PSEUDONYMS)
    assert "InstanceNumber" not in cleaned


def test_patients_over_89_are_90() -> None:
    header, _ = write_study(4)
    header.PatientAge = "097Y"
    assert clean_header(header, PSEUDONYMS)[0].PatientAge == "090Y"


def test_known_words_of_medicine_are_kept_in_lower_case_only() -> None:
    known = KnownIdentifiers("1", names=frozenset(["Stone^Li"]))
    assert list(known.find("a kidney stone, line up")) == []
    assert [kind for kind, _, _ in known.find("Stone, LI STONE")] == [Identifier.NAME] * 4


def test_a_short_name_is_found_beside_its_other_part() -> None:
    assert list(KnownIdentifiers("1", names=frozenset(["Ng^Mei"])).find("NG tube")) == []
    assert any(start == 0 for _, start, _ in KnownIdentifiers("1", names=frozenset(["Ng^Mei"])).find("Ng, Mei"))


def test_known_identifiers_are_read_from_nested_items() -> None:
    header, _ = write_study(5)
    header.OtherPatientIDsSequence[0].PatientID = "ZZ-991"
    assert "ZZ-991" in read_known(header).identifiers


def test_facts_say_what_was_masked_most_first() -> None:
    facts = list_facts(Counts({Identifier.UID: 2, Identifier.NAME: 5}))
    assert [(fact.label, fact.value) for fact in facts] == [("Masked: names", 5), ("Masked: UIDs", 2)]
