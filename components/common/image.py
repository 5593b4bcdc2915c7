"""Names of the container images, tagged with the project's version."""

from importlib.metadata import version


def image(name: str, prefix: str = "nightshift") -> str:
    """Return the reference of an image built from `containers/<name>`; `prefix` is its registry and folder there."""
    return f"{prefix}/{name}:{version('nightshift')}"
