"""From an image file, DICOM or another, to what networks see of it."""

from typing import Any

from nightshift.items import images
from nightshift.items.images import Pixels, Rules, UnusableError
from nightshift.runtime.errors import UserError

DICOM = slice(128, 132), b"DICM"  # what stands where in a file of DICOM's
IDENTIFIED = "identified"  # rule of a DICOM file that does not say that its patient's identity was removed


def find_fault(content: Any, rules: Rules) -> str | None:
    """Return the rule that rejects an image, or None."""
    if not isinstance(content, bytes | str) or not content:
        return "empty"
    if isinstance(content, str):
        return "missing_file"
    try:
        prepare(content, rules)
    except UnusableError as error:
        return str(error)
    return None


def prepare(content: bytes, rules: Rules) -> Pixels:
    """Return what networks see of a file, uint8 (side, side, channels).

    Raises:
        UnusableError: as `nightshift.items.images.prepare_pixels`, or a rule of `nightshift_image_text.dicom`.
        UserError: when it is a DICOM file, and nothing that reads these is installed.
    """
    return _prepare_dicom(content, rules) if is_dicom(content) else images.prepare_pixels(content, rules)


def is_dicom(content: bytes) -> bool:
    """Return whether a file is of DICOM's; nothing of DICOM needs to be installed."""
    where, magic = DICOM
    return content[where] == magic


def _prepare_dicom(content: bytes, rules: Rules) -> Pixels:
    try:
        from nightshift_image_text import dicom
    except ModuleNotFoundError as error:
        raise UserError(
            f"an image is a DICOM file, and {error.name} is not installed; pip install "
            "'nightshift-image-text[dicom]', or give PNG or JPEG files"
        ) from None
    dataset = dicom.parse(content, rules.max_pixels)
    if str(dataset.get("PatientIdentityRemoved", "")).strip().upper() != "YES":
        raise UnusableError(IDENTIFIED)
    if dicom.count_frames(dataset) > 1:
        raise UnusableError("many_frames")
    image = dicom.render(dataset, 0, rules.max_pixels)
    if min(image.size) < rules.min_side:
        raise UnusableError("too_small")
    return images.square(image, rules.side, rules.channels)
