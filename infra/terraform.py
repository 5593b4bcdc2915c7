"""Run Terraform on a copy of `infra/`, so that no state, lock file or plan is left in the repository."""

import atexit
import functools
import json
import os
import re
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
_SERVER = INFRA / "offline_providers.py"
_NO_REMOTE_STATE = 'terraform {\n  backend "local" {}\n}\n'
# memory may grow ninefold between collections, which else take a third of the CPU seconds; the tests reach 1 GB
_GARBAGE = {"GOGC": "800"}
_OWN = "own.tfvars.json"  # the variables that are laid over those of a size
# versions are compared with those of the providers on disk, not of those that are served
_INIT = "env --unset TF_REATTACH_PROVIDERS terraform init -input=false -no-color >/dev/null"
_ORDER = re.compile(r"^ *depends_on *= *\[[^\]]*\]$", re.MULTILINE)
_SOURCE = re.compile(r'source += "hashicorp/([\w-]+)"')
# also in Terraform's tests, such as `mock_resource "aws_subnet"`
_TYPE = re.compile(r'(?:resource|data) "(\w+)"')


def run(cloud: str, commands: str, source: Path = INFRA, files: Mapping[str, str] | None = None) -> str:
    """Run shell commands in a cloud's folder of a copy of `source`, initialized with local state.

    Args:
        cloud: aws or gcp.
        commands: for the shell, such as `terraform validate`.
        source: the folder to copy.
        files: texts by path in the cloud's folder, added to the copy.

    Returns:
        what they printed.

    Raises:
        UserError: when there is no terraform.
        UnavailableError: when a command fails, with all it printed.
    """
    if shutil.which("terraform") is None:
        raise UserError("terraform is not on PATH; install Terraform 1.11 or newer")
    offline = OFFLINE.exists()
    ignored = shutil.ignore_patterns(".terraform*") if offline else None
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(shutil.copytree(source, Path(scratch) / "infra", ignore=ignored), cloud)
        for name, text in {"backend_override.tf": _NO_REMOTE_STATE, **(files or {})}.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        command = ["sh", "-c", f"{_INIT} && {commands}"]
        environment = os.environ | _GARBAGE | _serve_offline(*_read_needs(root)) if offline else None
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"terraform in infra/{cloud} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _read_needs(root: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the providers of a configuration, and the types of resources and data sources in it and its tests."""
    text = "".join(path.read_text() for pattern in ("*.tf", "*.hcl") for path in sorted(root.rglob(pattern)))
    return frozenset(_SOURCE.findall(text)), frozenset(_TYPE.findall(text))


@functools.cache
def _serve_offline(providers: frozenset[str], types: frozenset[str]) -> dict[str, str]:
    """Serve offline providers while this process lives; return the environment of Terraform's commands."""
    cache = _lay_out_offline()
    schemas = [OFFLINE.parent / "schemas" / f"{name}.full.json.gz" for name in sorted(providers)]
    arguments = [_SERVER, OFFLINE.parent, json.dumps(sorted(types)), *schemas]
    command = [str(part) for part in (cache / "venv/bin/python", *arguments)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)  # it ends with its input
    if not (served := server.stdout.readline() if server.stdout else ""):
        raise UnavailableError(f"{_SERVER} served no provider; see above")
    return {
        "TF_CLI_CONFIG_FILE": str(cache / "mirror" / "terraform.rc"),
        "TF_IN_AUTOMATION": "1",
        "TF_REATTACH_PROVIDERS": served,
    }


@functools.cache
def _lay_out_offline() -> Path:
    """Give this process a place of its own for the offline providers: laying them out ends runs that share it."""
    shared = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "offline-terraform")
    with locks.hold(Path(tempfile.gettempdir()) / "nightshift-terraform.lock"):
        if not (shared / "venv").exists():
            subprocess.run([OFFLINE, INFRA, "--", ".", "true"], check=True)
    own = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    (own / "venv").symlink_to(shared / "venv")
    subprocess.run(
        [OFFLINE, own, "--", ".", "true"], env=os.environ | {"OFFLINE_TERRAFORM_CACHE": str(own)}, check=True
    )
    return own


def plan(cloud: str, size: str, source: Path = INFRA, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a plan for a cloud, as `terraform show -json` writes it.

    Args:
        cloud: aws or gcp.
        size: name of a .tfvars file.
        source: the folder to copy.
        variables: laid over those of the size.
    """
    commands = f"terraform plan -input=false -out=plan {_files(size)} >/dev/null && terraform show -json plan"
    planned: dict[str, Any] = json.loads(run(cloud, commands, source, {_OWN: json.dumps(variables or {})}))
    return planned


def evaluate(cloud: str, size: str, test: str, source: Path, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of a test's only run, as `terraform test -json` prints it; nothing is applied.

    Args:
        cloud: aws or gcp.
        size: name of a .tfvars file.
        test: the text of the test, whose run has `command = plan`.
        source: the folder to copy.
        variables: laid over those of the size.

    Raises:
        UnavailableError: when the run fails, with its errors.
    """
    commands = f"terraform test -json -verbose -test-directory=evaluated {_files(size)} || true"
    # in an order that only matters to an apply, data would not be read before
    unordered = {
        str(path.relative_to(source / cloud)): _ORDER.sub("", path.read_text())
        for path in (source / cloud).rglob("*.tf")
        if ".terraform" not in path.parts
    }
    texts = {**unordered, _OWN: json.dumps(variables), "evaluated/evaluated.tftest.hcl": test}
    messages = [json.loads(line) for line in run(cloud, commands, source, texts).splitlines()]
    plans: list[dict[str, Any]] = [message["test_plan"] for message in messages if message["type"] == "test_plan"]
    if not plans:
        errors = [_describe(message["diagnostic"]) for message in messages if message["type"] == "diagnostic"]
        raise UnavailableError(f"terraform test in infra/{cloud} failed: {'; '.join(errors) or messages[-1]}")
    return plans[0]


def _describe(diagnostic: dict[str, Any]) -> str:
    return " ".join(filter(None, (diagnostic["summary"], diagnostic.get("address"), diagnostic["detail"])))


def _files(size: str) -> str:
    return f"-var-file={size}.tfvars -var-file={_OWN}"
