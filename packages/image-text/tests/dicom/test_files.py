"""Every file of pydicom's test set is right, as pydicom and GDCM have it, or refused by a true rule."""

import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import data_store
import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.pixels import apply_color_lut, apply_modality_lut, apply_voi_lut

from nightshift.items.images import UnusableError
from nightshift_image_text import dicom
from nightshift_image_text.dicom import samples

FOLDERS = (Path(pydicom.__file__).parent / "data" / "test_files", Path(data_store.__file__).parent / "data")
FILES = {
    path.relative_to(folder).as_posix(): path
    for folder in FOLDERS
    for path in sorted(folder.rglob("*"))
    if path.is_file()
}
MAX_PIXELS = 50_000_000
SMALL = 40_000  # bytes
MEDIUM = 200_000
FIRST = 2  # frames that are compared
BY_GDCM = ("JPEG-LL", "JPEG-lossy", "JPGExtended", "JPGLossless", "JPEGLS", "jpeg_gdcm", "jls", "jpeg_ls", "bad_seq")
RULES = {
    # not DICOM
    **dict.fromkeys(("README.txt", "dicomdirtests/README.txt", "dicomdirtests/TINY_ALPHA/README"), "undecodable"),
    **dict.fromkeys(("rtplan.dump", "rtstruct.dump", "test1.json", "test_PN.json", "zipMR.gz"), "undecodable"),
    **dict.fromkeys(("crayons.icc", "no_meta.dcm"), "undecodable"),  # the latter has a byte too many at its begin
    "emri_small_jpeg_2k_lossless_too_short.dcm": "undecodable",  # ends within a sequence
    **dict.fromkeys(("ExplVR_BigEndNoMeta.dcm", "ExplVR_LitEndNoMeta.dcm", "OT-PAL-8-face.dcm"), "no_transfer_syntax"),
    **dict.fromkeys(("meta_missing_tsyntax.dcm", "rtstruct.dcm"), "no_transfer_syntax"),
    "MR_truncated.dcm": "short_pixels",
    "badVR.dcm": "bad_header",  # NumberOfFrames is '1A'
    "nested_priv_SQ.dcm": "bad_header",  # Pixel Data without a word on rows, columns and bits
    "JPEG2000-embedded-sequence-delimiter.dcm": "bad_header",  # a codestream of 3.7 billion columns
}


def outcome(name):
    try:
        return dicom.decode(FILES[name].read_bytes(), MAX_PIXELS)
    except UnusableError as error:
        return str(error)


def read_all(name):
    """Return the samples of a file's first frames, (frames, ...), and its data set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = dicom.parse(FILES[name].read_bytes(), MAX_PIXELS)
        count = min(dicom.count_frames(dataset), FIRST)
        return np.stack([samples.read_frame(dataset, frame, MAX_PIXELS) for frame in range(count)]), dataset


def shade_by_pydicom(name):
    """Return what pydicom's own functions make of a file's frame, as shares of white."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = pydicom.dcmread(FILES[name])
        stored = dataset.pixel_array
        if dataset.PhotometricInterpretation == "PALETTE COLOR":
            return apply_color_lut(stored, dataset)[..., :3] / 65535
        if stored.ndim == 3:
            return stored / float((1 << dataset.BitsStored) - 1)
        values = apply_modality_lut(stored, dataset)
        if "VOILUTSequence" in dataset:
            shown = apply_voi_lut(values.astype(int), dataset) / ((1 << dataset.VOILUTSequence[0].LUTDescriptor[2]) - 1)
        elif "WindowWidth" in dataset:
            low, high = apply_modality_lut(np.array(span(dataset)), dataset)
            shown = (apply_voi_lut(values, dataset) - low) / (high - low)
        elif dataset.BitsStored == 8:
            shown = values / 255
        else:
            shown = (values - values.min()) / (values.max() - values.min())
        return 1 - shown if dataset.PhotometricInterpretation == "MONOCHROME1" else shown


def span(dataset):
    """Return the lowest and highest sample that a header allows, the range that pydicom's windows span."""
    bits, is_signed = dataset.BitsStored, dataset.PixelRepresentation
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)


def decoded(names):
    return {name: image for name in names if not isinstance(image := outcome(name), str)}


def require_alike(images):
    for name, image in images.items():
        difference = np.abs(np.asarray(image) / 255 - shade_by_pydicom(name))
        # our JPEG decoder and the first of pydicom's round differently
        limit = 4 if b"1.2.840.10008.1.2.4." in FILES[name].read_bytes()[:1000] else 1
        assert difference.max() <= limit / 255 + 1e-9, name


def is_fast(name):
    return FILES[name].stat().st_size < SMALL and not any(part in name for part in BY_GDCM)


def test_small_files_are_shown_as_pydicom_shows_them():
    images = decoded(name for name in FILES if is_fast(name))
    assert len(images) > 70
    require_alike(images)


def test_files_are_refused_by_true_rules():
    assert {name: outcome(name) for name in RULES} == RULES


@pytest.mark.slow
def test_every_file_is_shown_as_pydicom_shows_it_or_refused_by_a_rule():
    outcomes = {name: outcome(name) for name in FILES}
    counts = Counter(image if isinstance(image, str) else "right" for image in outcomes.values())
    assert counts == {
        "right": 129,
        "no_pixels": 68,
        "many_frames": 25,
        "undecodable": 11,
        "no_transfer_syntax": 5,
        "bad_header": 3,
        "bad_window": 2,
        "short_pixels": 1,
    }
    require_alike({name: image for name, image in outcomes.items() if not isinstance(image, str) and not is_odd(name)})


def is_odd(name):
    """Return whether pydicom cannot decode a file, which GDCM can, or takes its palette for little-endian."""
    return name in ("JPEG-lossy.dcm", "JPGExtended.dcm", "OBXXXX1A_expb.dcm")


# GDCM swaps bytes of samples of more than 8 bits in runs, and of 32 bits in big-endian files; a header that says signed
# of an unsigned codestream it believes
GDCM_DIFFERS = ("SC_rgb_rle_16bit", "SC_rgb_rle_32bit", "rtdose_expb", "J2K_pixelrep_mismatch")


@pytest.mark.slow
def test_samples_are_those_that_gdcm_reads(tmp_path):
    names = [name for name, path in FILES.items() if not name.startswith(GDCM_DIFFERS) and path.stat().st_size < MEDIUM]
    script = Path(__file__).parent / "read_by_gdcm.py"
    command = [sys.executable, str(script), str(tmp_path), *(str(FILES[name]) for name in names)]
    subprocess.run(command, check=True, capture_output=True)
    compared = 0
    for number, name in enumerate(names):
        path = tmp_path / f"{number}.npy"
        if not path.exists() or RULES.get(name):
            continue
        stored, dataset = read_all(name)
        theirs = np.load(path)[:FIRST]
        if is_ybr := dataset.PhotometricInterpretation.startswith("YBR_FULL"):
            theirs = np.stack([np.asarray(Image.fromarray(frame, "YCbCr").convert("RGB")) for frame in theirs])
        assert np.abs(theirs.astype(np.int64) - stored).max() <= int(is_ybr), name
        compared += 1
    assert compared == 109


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("SC_rgb_rle_16bit.dcm", "SC_rgb_16bit.dcm"),
        ("SC_rgb_rle_32bit_2frame.dcm", "SC_rgb_32bit_2frame.dcm"),
        ("rtdose_expb.dcm", "rtdose.dcm"),
        ("liver_expb.dcm", "liver.dcm"),
        ("emri_small_jpeg_2k_lossless.dcm", "emri_small.dcm"),
    ],
)
def test_files_that_gdcm_reads_otherwise_are_as_their_uncompressed_or_little_endian_twins(name, same):
    assert np.array_equal(read_all(name)[0], read_all(same)[0])


def test_a_palette_is_the_same_in_either_order_of_bytes():
    assert outcome("OBXXXX1A_expb.dcm") == outcome("OBXXXX1A.dcm")
