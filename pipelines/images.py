"""Which images stand for those of the example registry, which compiled pipelines and manifests name."""

import os

from nightshift.errors import UserError
from nightshift.image import image

EXAMPLE_REGISTRY = "registry.example.com/nightshift"
PUSHED_IMAGES = "NIGHTSHIFT_IMAGES"  # environment variable: references of images, apart by spaces


def find_pushed_images() -> dict[str, str]:
    """Return example image -> the one that was pushed, of those that `NIGHTSHIFT_IMAGES` names.

    Raises:
        UserError: when it names what is no reference with a digest.
    """
    pushed = {}
    for reference in os.environ.get(PUSHED_IMAGES, "").split():
        repository, at, _ = reference.partition("@sha256:")
        if not at or "/" not in repository:
            raise UserError(
                f"{PUSHED_IMAGES} has {reference!r}, which is no <registry>/<name>@sha256:<digest>; make cloud-images"
                " prints what was pushed"
            )
        pushed[image(repository.rpartition("/")[2], EXAMPLE_REGISTRY)] = reference
    return pushed
