import subprocess
from importlib import metadata

import pytest

from nightshift import DISTRIBUTION
from nightshift.runtime.lineage import code_version

pytestmark = pytest.mark.slow

VERSION = metadata.version(DISTRIBUTION)


@pytest.fixture
def checkout(tmp_path):
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        (tmp_path / "file").write_text("one")
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *command], check=True)
    return tmp_path


def test_a_checkout_adds_its_commit_to_the_version(checkout):
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert code_version(checkout) == f"{VERSION}+{commit}"


def test_changes_that_are_not_committed_are_told(checkout):
    (checkout / "file").write_text("two")
    assert code_version(checkout).endswith(".dirty")


def test_a_checkout_that_happens_to_lie_around_the_installed_code_is_not_taken_for_it(checkout):
    inner = checkout / "site-packages"
    inner.mkdir()
    assert code_version(inner) == VERSION


def test_a_broken_checkout_leaves_the_plain_version(tmp_path):
    (tmp_path / ".git").mkdir()
    assert code_version(tmp_path) == VERSION
