"""A user's own environment, registry and file system leave the checks green, and are judged as the examples are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cluster import core
from infra.terraform import INFRA

pytestmark = pytest.mark.xdist_group("terraform-aws")
ROOT = INFRA.parent
PARTS = ("components", "containers", "docs", "infra", "nightshift", "pipelines", "pyproject.toml", "tests")
REGISTRY = "444444444444.dkr.ecr.eu-west-1.amazonaws.com/acme"
ENVIRONMENT = {'"prod"': '"acme"', "us-east-1": "eu-west-1", "000000000000": "444444444444", "4800": "9600"}
FILE_SYSTEM = {"4800Gi": "9600Gi", "fs-00000000000000000": "fs-0123456789abcdef0", "us-east-1": "eu-west-1"}
# those that look at environments, registries or file systems
CHECKS = "acme or other_value or credential or given or test_kubernetes or test_sites"


def copied(source: Path, target: Path, changes: dict[str, str]) -> None:
    """Copy a file with other words in it."""
    text = source.read_text()
    for old, new in changes.items():
        assert old in text, f"{source} has no {old}"
        text = text.replace(old, new)
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files of a user who has an environment `acme` on AWS, put there as `docs/infrastructure.md` says."""
    root = tmp_path / "tree"
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        root.mkdir(exist_ok=True)
        copy(ROOT / name, root / name)
    (tmp_path / "shared").symlink_to(ROOT.parent / "shared")
    copied(root / "infra/aws/prod.tfvars", root / "infra/aws/acme.tfvars", ENVIRONMENT)
    folder = root / "infra/kubernetes"
    copied(folder / "aws-prod/kustomization.yaml", folder / "aws-acme/kustomization.yaml", FILE_SYSTEM)
    for path in (root / "pipelines/environments.py", *root.glob("pipelines/compiled/[ag]*/*.yaml")):
        copied(path, path, {core.REGISTRY: REGISTRY})
    return root


def checked(root: Path) -> str:
    """Run the checks of a copy; return what they print."""
    files = [f"tests/infra/test_{name}.py" for name in ("golden", "kubernetes", "terraform")]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-v", "-p", "no:cacheprovider", "-k", CHECKS, *files]
    environment = os.environ | {"PYTHONPATH": str(root), "COLUMNS": "200"}
    done = subprocess.run(
        [*command, "tests/pipelines/test_sites.py"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_an_environment_of_ones_own_is_judged_by_the_policies_and_breaks_no_check(
    tree: Path, with_terraform: None
) -> None:
    printed = checked(tree)

    assert " failed" not in printed and " error" not in printed, printed
    assert "test_the_plan_keeps_every_policy[aws-acme] PASSED" in printed
