"""Run Terraform on a copy of `infra/`, so that no state, lock file or plan is left in the repository."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.storage import locks

INFRA = Path(__file__).parent
# real Terraform with the providers' schemas and no cloud; without it Terraform asks the registry and the accounts
OFFLINE = INFRA.parents[1] / "shared" / "terraform" / "offline-terraform"
_NO_REMOTE_STATE = 'terraform {\n  backend "local" {}\n}\n'
# memory may grow ninefold between collections, which else take a third of the CPU seconds; the tests reach 1 GB
_GARBAGE = {"GOGC": "800"}
_INIT = "terraform init -input=false -no-color >/dev/null"


def run(cloud: str, commands: str, source: Path = INFRA) -> str:
    """Run shell commands in a cloud's folder of a copy of `source`, initialized with local state.

    Args:
        cloud: aws or gcp.
        commands: for the shell, such as `terraform validate`.
        source: the folder to copy.

    Returns:
        what they printed.

    Raises:
        UserError: when there is no terraform.
        UnavailableError: when a command fails, with all it printed.
    """
    if shutil.which("terraform") is None:
        raise UserError("terraform is not on PATH; install Terraform 1.11 or newer")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(shutil.copytree(source, Path(scratch) / "infra"))
        (root / cloud / "backend_override.tf").write_text(_NO_REMOTE_STATE)
        script = f"{_INIT} && {commands}"
        offline = [str(OFFLINE), str(root), "--", cloud, script]
        command = offline if OFFLINE.exists() else ["sh", "-c", script]
        environment = os.environ | _offline_cache() | _GARBAGE if OFFLINE.exists() else None
        done = subprocess.run(command, cwd=root / cloud, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"terraform in infra/{cloud} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@functools.cache
def _offline_cache() -> dict[str, str]:
    """Give this process a place of its own for the offline providers: laying them out ends runs that share it."""
    shared = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "offline-terraform")
    with locks.hold(Path(tempfile.gettempdir()) / "nightshift-terraform.lock"):
        if not (shared / "venv").exists():
            subprocess.run([OFFLINE, INFRA, "--", ".", "true"], check=True)
    own = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    (own / "venv").symlink_to(shared / "venv")
    return {"OFFLINE_TERRAFORM_CACHE": str(own)}


def plan(cloud: str, size: str, source: Path = INFRA, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a plan for a cloud, as `terraform show -json` writes it.

    Args:
        cloud: aws or gcp.
        size: name of a .tfvars file.
        source: the folder to copy.
        variables: laid over those of the size.
    """
    planned: dict[str, Any] = json.loads(_plan(cloud, size, source, variables, "terraform show -json plan"))
    return planned


def plan_and_apply(
    cloud: str, size: str, source: Path = INFRA, variables: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a plan as above, and what an apply without a cloud makes of it, whose answers are made up.

    Raises:
        UserError: without the offline providers, with which alone nothing real is made.
    """
    if not OFFLINE.exists():
        raise UserError(f"{OFFLINE} is missing: without the offline providers applying would change the account")
    shown = "terraform show -json plan && terraform apply plan >/dev/null && terraform show -json"
    plan_text, state_text = _plan(cloud, size, source, variables, shown).splitlines()
    return json.loads(plan_text), json.loads(state_text)


def _plan(cloud: str, size: str, source: Path, variables: Mapping[str, Any] | None, shown: str) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".tfvars.json") as own:
        json.dump(variables or {}, own)
        own.flush()
        files = f"-var-file={size}.tfvars -var-file={own.name}"
        return run(cloud, f"terraform plan -input=false -out=plan {files} >/dev/null && {shown}", source)
