"""Which images stand for those of the example registry, which compiled pipelines and manifests name."""

import os
import re

from nightshift.runtime.errors import UserError, nearest
from nightshift.runtime.image import ImageName, image

EXAMPLE_REGISTRY = "registry.example.com/nightshift"
PUSHED_IMAGES = "NIGHTSHIFT_IMAGES"  # environment variable: references of images, apart by spaces
REFERENCE = re.compile(r"[\w.:/-]+/(?P<name>[\w.-]+)@sha256:[0-9a-f]{64}")


def find_pushed_images() -> dict[str, str]:
    """Return example image -> the one that was pushed, of those that `NIGHTSHIFT_IMAGES` names.

    Raises:
        UserError: when it names what is no reference with a digest, no image of ours, or two of an image.
    """
    pushed: dict[str, str] = {}
    for reference in os.environ.get(PUSHED_IMAGES, "").split():
        parts = REFERENCE.fullmatch(reference)
        if not parts:
            raise UserError(
                f"{PUSHED_IMAGES} has {reference!r}, which is no <registry>/<name>@sha256:<digest>; make cloud-images"
                " prints what was pushed"
            )
        name = parts["name"]
        if name not in set(ImageName):
            raise UserError(
                f"{PUSHED_IMAGES} has an image {name!r}; allowed: {', '.join(ImageName)}{nearest(name, ImageName)}"
            )
        if pushed.setdefault(image(name, EXAMPLE_REGISTRY), reference) != reference:
            raise UserError(f"{PUSHED_IMAGES} has two images {name!r}; leave out the one that is not to run")
    return pushed
