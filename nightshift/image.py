"""Names of the container images, tagged with the project's version."""

from importlib.metadata import version

# a component's own, since kfp wants one: where a step is placed decides on its image
UNPLACED = "unplaced"


def image(name: str, prefix: str = "nightshift") -> str:
    """Return the reference of an image built from `containers/<name>`; `prefix` is its registry and folder there."""
    return f"{prefix}/{name}:{version('nightshift')}"
