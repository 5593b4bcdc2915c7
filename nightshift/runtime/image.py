"""Names of the container images, tagged with the project's version."""

from enum import StrEnum
from importlib.metadata import version

from nightshift import DISTRIBUTION

# a component's own, since kfp wants one: where a step is placed decides on its image
UNPLACED = "unplaced"


class ImageName(StrEnum):
    """An image, by its stage of `containers/Dockerfile`."""

    BASE = "base"
    SERVING = "serving"
    SERVING_GPU = "serving-gpu"
    AIRFLOW = "airflow"
    RAPIDS = "rapids"
    WORKER = "worker"


def image(name: str, prefix: str = "nightshift") -> str:
    """Return the reference of an image built from `containers/<name>`; `prefix` is its registry and folder there."""
    return f"{prefix}/{name}:{version(DISTRIBUTION)}"
