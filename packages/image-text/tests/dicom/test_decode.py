import zlib
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixels import apply_windowing
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLosslessSV1,
)

from nightshift.items.images import UnusableError
from nightshift_image_text import dicom
from nightshift_image_text.dicom import codestreams, display, isolated

RAMP = np.arange(256, dtype=np.uint16).reshape(16, 16)
COLORS = ("Red", "Green", "Blue")
WINDOW = {"WindowCenter": 100, "WindowWidth": 50}


def make_dataset(pixels, photometric="MONOCHROME2", **tags):
    """Return an object of one uncompressed frame: (rows, columns), or (rows, columns, 3)."""
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID, dataset.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.7", "1.2.3"
    dataset.Rows, dataset.Columns = pixels.shape[:2]
    dataset.SamplesPerPixel = 3 if pixels.ndim == 3 else 1
    if pixels.ndim == 3:
        dataset.PlanarConfiguration = 0
    dataset.BitsAllocated = dataset.BitsStored = 8 * pixels.dtype.itemsize
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelRepresentation = int(np.issubdtype(pixels.dtype, np.signedinteger))
    dataset.PhotometricInterpretation = photometric
    data = pixels.tobytes()
    dataset.PixelData = data + b"\0" * (len(data) % 2)
    for keyword, value in tags.items():
        setattr(dataset, keyword, value)
    return dataset


def write(dataset):
    buffer = BytesIO()
    dataset.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def show(dataset, max_pixels=10_000):
    return np.asarray(dicom.decode(write(dataset), max_pixels))


def compress(dataset, syntax, codestreams):
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.PixelData = encapsulate(codestreams)
    dataset["PixelData"].is_undefined_length = True
    return dataset


def encode(pixels, name):
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, name)
    return buffer.getvalue()


def rule(content, max_pixels=10_000):
    with pytest.raises(UnusableError) as refused:
        dicom.decode(content, max_pixels)
    assert str(refused.value) in dicom.ALLOWED
    return str(refused.value)


def test_dicom_files_are_told_from_images():
    assert dicom.is_dicom(write(make_dataset(RAMP)))
    assert not any(
        dicom.is_dicom(encode(RAMP.astype(np.uint8), name)) for name in ("png", "jpeg", "webp", "gif", "bmp")
    )


def test_a_gray_frame_without_a_window_spans_its_lowest_to_its_highest_sample():
    assert np.array_equal(show(make_dataset(RAMP * 100 + 7)), RAMP)


def test_signed_samples_and_a_rescaling_keep_their_order():
    signed = (RAMP.astype(np.int16) - 128) * 3
    assert np.array_equal(show(make_dataset(signed)), RAMP)
    assert np.array_equal(show(make_dataset(signed, RescaleSlope=-1, RescaleIntercept=5)), 255 - RAMP)


def test_eight_bits_without_a_window_stay_as_they_are():
    dim = (RAMP // 4).astype(np.uint8)
    assert np.array_equal(show(make_dataset(dim)), dim)


def test_bits_that_are_not_stored_are_left_out():
    assert np.array_equal(show(make_dataset(RAMP | 0xF000, BitsStored=12, HighBit=11)), RAMP)


def test_samples_outside_the_window_are_black_and_white():
    shown = show(make_dataset(RAMP, **WINDOW))
    assert not shown[RAMP <= 75].any()
    assert (shown[RAMP > 124] == 255).all()
    assert np.unique(shown[(RAMP > 75) & (RAMP < 124)]).size > 40


def test_the_darkest_sample_of_monochrome1_is_white():
    shown = show(make_dataset(RAMP, **WINDOW))
    assert np.array_equal(show(make_dataset(RAMP, "MONOCHROME1", **WINDOW)), 255 - shown)


def test_padding_does_not_count_to_the_span():
    padded = RAMP.astype(np.int16)
    padded[0, 5] = -2000
    assert np.array_equal(show(make_dataset(padded, PixelPaddingValue=-2000))[1:], show(make_dataset(RAMP))[1:])


@pytest.mark.parametrize(
    "tags", [{"WindowCenter": 100, "WindowWidth": 0}, {"WindowCenter": 100}, {"WindowWidth": None}]
)
def test_a_window_of_no_width_is_none(tags):
    assert np.array_equal(show(make_dataset(RAMP, **tags)), RAMP)


def test_a_window_in_which_all_looks_the_same_is_refused():
    assert rule(write(make_dataset(RAMP, WindowCenter=5000, WindowWidth=10))) == "bad_window"


def test_a_window_of_each_frame_is_its_own():
    frames = np.concatenate([RAMP, RAMP])
    dataset = make_dataset(RAMP, NumberOfFrames=2, PixelData=frames.tobytes(), PerFrameFunctionalGroupsSequence=[])
    for center in (50, 200):
        window, group = Dataset(), Dataset()
        window.WindowCenter, window.WindowWidth = center, 2
        group.FrameVOILUTSequence = [window]
        dataset.PerFrameFunctionalGroupsSequence.append(group)
    first, second = (np.asarray(frame) for frame in dicom.frames(write(dataset), 10_000))
    assert (first == 255).sum() > (second == 255).sum() > 0


def test_color_stays_as_it_is_and_of_sixteen_bits_is_scaled():
    color = np.stack([RAMP, RAMP.T, 255 - RAMP], axis=-1)
    assert np.array_equal(show(make_dataset(color.astype(np.uint8), "RGB")), color)
    assert np.array_equal(show(make_dataset(color * 257, "RGB")), color)


def test_a_palette_of_eight_bits_in_sixteen_is_not_black():
    tables = {f"{color}PaletteColorLookupTableData": RAMP.tobytes() for color in COLORS}
    dataset = make_dataset(RAMP.astype(np.uint8), "PALETTE COLOR", **tables)
    for color in COLORS:
        dataset.add_new(f"{color}PaletteColorLookupTableDescriptor", "US", [256, 0, 16])
    assert np.array_equal(show(dataset), np.stack([RAMP] * 3, axis=-1))


def test_a_palette_of_a_big_endian_file_is_read_as_such():
    tables = {f"{color}PaletteColorLookupTableData": (RAMP * 256 + 99).astype(">u2").tobytes() for color in COLORS}
    dataset = make_dataset(RAMP.astype(np.uint8), "PALETTE COLOR", **tables)
    for color in COLORS:
        dataset.add_new(f"{color}PaletteColorLookupTableDescriptor", "US", [256, 0, 16])
    dataset.file_meta.TransferSyntaxUID = ExplicitVRBigEndian
    dataset["PixelData"].VR = "OB"
    assert np.array_equal(show(dataset), np.stack([RAMP] * 3, axis=-1))


@given(
    center=st.integers(-240, 1600).map(lambda quarters: quarters / 4),
    width=st.integers(16, 2400).map(lambda quarters: quarters / 4),
    function=st.sampled_from(["LINEAR", "LINEAR_EXACT", "SIGMOID"]),
)
@settings(max_examples=60)
def test_windows_are_those_of_pydicom(center, width, function):
    dataset = make_dataset(RAMP.astype(np.int16))
    dataset.WindowCenter, dataset.WindowWidth, dataset.VOILUTFunction = str(center), str(width), function
    ours = display.apply_window(RAMP.astype(float), *display.read_window(dataset), function)
    theirs = (apply_windowing(RAMP.astype(np.int16), dataset) + 32768) / 65535
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"PixelData": RAMP.tobytes()[:-2]}, "short_pixels"),
        ({"PixelData": RAMP.tobytes() * 2}, "bad_header"),
        ({"BitsAllocated": 8, "BitsStored": 8, "HighBit": 7}, "bad_header"),
        ({"NumberOfFrames": 2}, "many_frames"),
        ({"NumberOfFrames": 0}, "bad_header"),
        ({"Rows": 60_000, "Columns": 60_000}, "decompression_bomb"),
        ({"Rows": 0}, "bad_header"),
        ({"Rows": None}, "bad_header"),
        ({"BitsStored": 17}, "bad_header"),
        ({"PixelRepresentation": None}, "bad_header"),
        ({"SamplesPerPixel": 3}, "bad_header"),
        ({"PhotometricInterpretation": ""}, "bad_header"),
        ({"PhotometricInterpretation": "CMYK"}, "wrong_mode"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "bad_header"),
        (WINDOW | {"VOILUTFunction": "CUBIC"}, "bad_header"),
    ],
)
def test_a_header_that_lies_is_refused_by_its_rule(tags, expected):
    assert rule(write(make_dataset(RAMP, **tags))) == expected


def test_an_object_without_pixels_is_refused():
    dataset = make_dataset(RAMP)
    del dataset.PixelData
    assert rule(write(dataset)) == "no_pixels"
    dataset.FloatPixelData = RAMP.astype(np.float32).tobytes()
    assert rule(write(dataset)) == "wrong_mode"


def test_what_is_no_whole_dicom_file_is_refused():
    content = write(make_dataset(RAMP))
    assert rule(b"") == rule(b"GIF89a") == "undecodable"
    assert rule(content[132:]) == "no_transfer_syntax"


def test_a_video_is_of_no_supported_transfer_syntax():
    assert (
        rule(write(compress(make_dataset(RAMP), "1.2.840.10008.1.2.4.102", [b"\0" * 8])))
        == "unsupported_transfer_syntax"
    )


def test_a_deflated_file_is_not_inflated_beyond_what_its_pixels_can_need():
    dataset = make_dataset(RAMP, ImageComments="x" * 10_000)
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    content = write(dataset)
    assert np.array_equal(dicom.decode(content, 10_000), RAMP)
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    begin = content.index(dataset.file_meta.TransferSyntaxUID.encode()) + 22
    bomb = content[:begin] + deflater.compress(bytes(1 << 25)) + deflater.flush()
    assert rule(bomb) == "decompression_bomb"


def test_a_codestream_larger_than_the_header_says_is_not_decoded():
    for syntax, name in ((JPEGBaseline8Bit, "jpeg"), (JPEG2000Lossless, "jpeg2000")):
        large = encode(np.zeros((64, 64), np.uint8), name)
        assert codestreams.find_size(large) == (64, 64)
        assert rule(write(compress(make_dataset(RAMP.astype(np.uint8)), syntax, [large]))) == "bad_header"


def test_a_compressed_frame_is_what_was_compressed():
    gray = RAMP.astype(np.uint8)
    dataset = compress(make_dataset(gray), JPEG2000Lossless, [encode(gray, "jpeg2000")])
    assert np.array_equal(show(dataset), gray)
    dataset.NumberOfFrames = 2  # of which there is one
    frames = dicom.frames(write(dataset), 10_000)
    next(frames)
    with pytest.raises(UnusableError, match="short_pixels"):
        next(frames)


def test_a_codestream_that_is_none_is_undecodable():
    dataset = make_dataset(RAMP.astype(np.uint8))
    for codestream in (b"\xff\xd8\xff\xc0", b"nothing that decodes", encode(RAMP.astype(np.uint8), "jpeg")[:150]):
        assert rule(write(compress(dataset, JPEGBaseline8Bit, [codestream]))) == "undecodable"


@pytest.mark.slow
def test_a_frame_that_ends_gdcm_is_undecodable_and_the_next_one_is_decoded():
    # what GDCM makes of a JPEG that is not lossless, cut short, differs by version; a killed process does not
    dataset = compress(make_dataset(RAMP.astype(np.uint8)), JPEGLosslessSV1, [lossless_jpeg()])
    assert np.array_equal(show(dataset), np.full((16, 16), 128))
    isolated._PROCESS._process.kill()
    assert rule(write(dataset)) == "undecodable"
    assert np.array_equal(show(dataset), np.full((16, 16), 128))


def lossless_jpeg():
    """Return a JPEG of process 14, 16 x 16 of 128: no difference, of one bit each (ITU-T T.81, annex H)."""
    frame = bytes.fromhex("ffc3 000b 08 0010 0010 01 01 11 00")
    table = bytes.fromhex("ffc4 0014 00 01" + "00" * 15 + "00")
    scan = bytes.fromhex("ffda 0008 01 01 00 01 00 00")
    return b"\xff\xd8" + frame + table + scan + bytes(32) + b"\xff\xd9"
