"""The answers about an environment of one's own leave the checks green, and are judged as the examples are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cloud import asking
from infra.terraform import INFRA

pytestmark = pytest.mark.xdist_group("terraform-aws")
ROOT = INFRA.parent
PARTS = ("components", "containers", "docs", "infra", "nightshift", "pipelines", "pyproject.toml", "tests")
OWN = {
    "cloud": "aws",
    "environment": "acme",
    "size": "prod",
    "region": "eu-west-1",
    "zones": "eu-west-1a,eu-west-1b",
    "account.id": "444444444444",
    "account.administrators": "arn:aws:iam::444444444444:role/platform",
    "account.operators": "arn:aws:iam::444444444444:role/night",
    "account.readers": "arn:aws:iam::444444444444:role/day",
    "budget.monthly": "9000",
    "budget.emails": "ml@acme.test",
}
# those that look at environments, registries or file systems
CHECKS = "acme or other_value or credential or given or test_kubernetes or test_sites"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files of a user who has answered for an environment `acme` on AWS."""
    root = tmp_path / "tree"
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        root.mkdir(exist_ok=True)
        copy(ROOT / name, root / name)
    (tmp_path / "shared").symlink_to(ROOT.parent / "shared")
    asking.write(OWN, None, root / "infra/answers")
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
