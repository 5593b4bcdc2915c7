import os
from typing import Any

import pytest


@pytest.fixture(scope="session")
def engine() -> Any:
    """A container engine that holds the images of `make images`; where none answers the test is skipped."""
    import docker

    missing = pytest.fail if os.environ.get("CI") else pytest.skip
    try:
        client = docker.from_env()
        client.images.get("nightshift/base:0.3.0")
    except docker.errors.ImageNotFound as error:
        missing(f"images are not built, run: make images ({error})")
    except docker.errors.DockerException as error:
        missing(f"no container engine answers ({error})")
    return client
