"""What kustomize makes of a folder."""

import subprocess
from pathlib import Path

import yaml

from tests.infra.plans import Json


def built(folder: Path) -> list[Json]:
    """Return the objects of a kustomization.

    Raises:
        subprocess.CalledProcessError: when kustomize refuses it.
    """
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True)
    return [value for value in yaml.safe_load_all(done.stdout) if value]
