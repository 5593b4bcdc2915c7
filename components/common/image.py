"""Names of the container images, tagged with the project's version."""

from importlib.metadata import version


def image(name: str) -> str:
    """Return the reference of an image built from `containers/<name>`."""
    return f"nightshift/{name}:{version('nightshift')}"
