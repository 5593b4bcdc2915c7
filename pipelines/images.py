"""Which images stand for those of the example registry, which compiled pipelines and manifests name."""

import os
import re

from nightshift.errors import UserError
from nightshift.image import image

EXAMPLE_REGISTRY = "registry.example.com/nightshift"
PUSHED_IMAGES = "NIGHTSHIFT_IMAGES"  # environment variable: references of images, apart by spaces
REFERENCE = re.compile(r"[\w.:/-]+/(?P<name>[\w.-]+)@sha256:[0-9a-f]{64}")


def find_pushed_images() -> dict[str, str]:
    """Return example image -> the one that was pushed, of those that `NIGHTSHIFT_IMAGES` names.

    Raises:
        UserError: when it names what is no reference with a digest, or two of an image.
    """
    pushed: dict[str, str] = {}
    for reference in os.environ.get(PUSHED_IMAGES, "").split():
        parts = REFERENCE.fullmatch(reference)
        if not parts:
            raise UserError(
                f"{PUSHED_IMAGES} has {reference!r}, which is no <registry>/<name>@sha256:<digest>; make cloud-images"
                " prints what was pushed"
            )
        example = image(parts["name"], EXAMPLE_REGISTRY)
        if pushed.setdefault(example, reference) != reference:
            raise UserError(f"{PUSHED_IMAGES} has two images {parts['name']!r}; leave out the one that is not to run")
    return pushed
