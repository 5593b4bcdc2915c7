"""Run Terraform on a copy of `infra/`, so that no state, lock file or plan is left in the repository."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock

from components.common.errors import UnavailableError, UserError

INFRA = Path(__file__).parent
# real Terraform with the providers' schemas and no cloud; without it Terraform asks the registry and the accounts
OFFLINE = INFRA.parents[1] / "shared" / "terraform" / "offline-terraform"
_NO_REMOTE_STATE = 'terraform {\n  backend "local" {}\n}\n'
# the offline providers are laid out anew by every run, under the feet of one that still goes on
_TURN = FileLock(Path(tempfile.gettempdir()) / "nightshift-terraform.lock")
_INIT = "terraform init -input=false -no-color >/dev/null"


def run(cloud: str, commands: str, source: Path = INFRA) -> str:
    """Run shell commands in a cloud's folder of a copy of `source`, initialised with local state.

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
        raise UserError("terraform is not on PATH; install Terraform 1.9 or newer")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(shutil.copytree(source, Path(scratch) / "infra"))
        (root / cloud / "backend_override.tf").write_text(_NO_REMOTE_STATE)
        script = f"{_INIT} && {commands}"
        offline = [str(OFFLINE), str(root), "--", cloud, script]
        command = offline if OFFLINE.exists() else ["sh", "-c", script]
        with _TURN:
            done = subprocess.run(command, cwd=root / cloud, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"terraform in infra/{cloud} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def plan(cloud: str, environment: str, source: Path = INFRA) -> dict[str, Any]:
    """Return the plan of one environment of a cloud, as `terraform show -json` writes it."""
    commands = (
        f"terraform plan -input=false -out=plan -var-file={environment}.tfvars >/dev/null && terraform show -json plan"
    )
    planned: dict[str, Any] = json.loads(run(cloud, commands, source))
    return planned
