"""Environments of four customers: own names, ranges, regions, registries, groups and sizes, and nothing wrong."""

import shutil
from pathlib import Path

from infra.terraform import INFRA

FOLDER = Path(__file__).parent
# where a customer puts words of its own into files that all environments share
_WORDS = {"gcp-fin": {"cluster/namespaces/common/people.yaml": ("example.com", "fin.example")}}


def names(cloud: str) -> list[str]:
    """Return the customers of a cloud, by the names of their environments."""
    return sorted(path.name.removeprefix(f"{cloud}-") for path in FOLDER.glob(f"{cloud}-*"))


def copy_of(scratch: Path, cloud: str, name: str) -> Path:
    """Return a copy of `infra/` as a customer has it, with its environment in it."""
    infra = Path(shutil.copytree(INFRA, scratch / "infra", ignore=shutil.ignore_patterns("__pycache__")))
    own = FOLDER / f"{cloud}-{name}"
    places = {
        "values.tfvars": f"{cloud}/{name}.tfvars",
        "kustomization.yaml": f"kubernetes/{cloud}-{name}/kustomization.yaml",
        "karpenter.yaml": f"cluster/karpenter-{name}/kustomization.yaml",
    }
    for file in own.iterdir():
        target = infra / places[file.name]
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, target)
    for path, (old, new) in _WORDS.get(own.name, {}).items():
        (infra / path).write_text((infra / path).read_text().replace(old, new))
    return infra
