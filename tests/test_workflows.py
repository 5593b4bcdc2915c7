"""The workflows of `.github/`, the scripts that they call, and what Renovate sees of the charts."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_docs import ROOT, TARGETS

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
DIGEST = "sha256:" + "a" * 64
SIGNER = "https://github.com/us/nightshift/.github/workflows/deliver.yaml@refs/heads/main"
RunScript = Callable[..., subprocess.CompletedProcess[str]]


def jobs(workflow: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load(workflow.read_text())["jobs"].values()


def steps(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in jobs(workflow):
        yield from job["steps"]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["actionlint"], ["zizmor", "--offline", "--quiet", ".github"]], ids=lambda c: c[0])
def test_a_linter_of_workflows_has_nothing_to_say(command: list[str]) -> None:
    beside_python = ROOT / ".venv" / "bin"
    program = shutil.which(command[0], path=f"{beside_python}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip(f"{command[0]} is not installed; `make lint-workflows` runs it")

    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_pinned_by_its_commit_with_its_version_beside(workflow: Path) -> None:
    uses = re.findall(r"uses: (.*)", workflow.read_text())

    assert [action for action in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_each_job_has_rights_of_its_own_and_a_time_limit(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {}
    assert [job for job in jobs(workflow) if "permissions" not in job or "timeout-minutes" not in job] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_and_script_that_a_workflow_calls_exists(workflow: Path) -> None:
    scripts = "\n".join(step.get("run", "") for step in steps(workflow))
    targets = re.findall(r"\bmake (?:-C \S+ )?([\w./-]+)", scripts)

    assert set(targets) <= TARGETS | {".venv/.dev"}
    assert [name for name in re.findall(r"\.ci/[\w-]+", scripts) if not os.access(ROOT / name, os.X_OK)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_no_workflow_reads_a_stored_secret_or_runs_a_fork_with_rights_of_ours(workflow: Path) -> None:
    text = workflow.read_text()

    assert "secrets." not in text
    assert "pull_request_target" not in text and "workflow_run" not in text


@pytest.mark.parametrize("workflow", ["deliver", "release"])
def test_what_is_published_is_attested_by_the_job_that_has_built_it(workflow: str) -> None:
    (job,) = [job for job in jobs(ROOT / f".github/workflows/{workflow}.yaml") if "attestations" in job["permissions"]]
    scripts = " ".join(step.get("run", "") for step in job["steps"])

    assert job["permissions"]["attestations"] == job["permissions"]["id-token"] == "write"
    assert [step["with"] for step in job["steps"] if "attest-build-provenance@" in step.get("uses", "")]
    assert "make push" in scripts or "make dist" in scripts


@pytest.mark.slow
def test_the_digests_of_pushed_images_are_attested_under_their_names(tmp_path: Path) -> None:
    (script,) = [step["run"] for step in steps(ROOT / ".github/workflows/deliver.yaml") if step.get("id") == "push"]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/images.txt").write_text(f"base 0.3.0 {DIGEST}\n")

    subprocess.run(["sh", "-c", script.splitlines()[-1]], cwd=tmp_path, env={"REGISTRY": "registry/us"}, check=True)

    assert (tmp_path / "runs/checksums.txt").read_text() == f"{DIGEST.removeprefix('sha256:')}  registry/us/base\n"


def test_the_page_lists_every_workflow_and_every_variable() -> None:
    page = (ROOT / "docs" / "guides" / "delivery.md").read_text()
    variables = {name for workflow in WORKFLOWS for name in re.findall(r"vars\.([A-Z_]+)", workflow.read_text())}

    assert [name for name in [*variables, *(path.name for path in WORKFLOWS)] if f"`{name}`" not in page] == []


def test_renovate_sees_every_chart_with_its_version() -> None:
    charts = yaml.safe_load((ROOT / "infra" / "cluster" / "charts.yaml").read_text())
    managers = json.loads((ROOT / "renovate.json").read_text())["customManagers"]
    expressions = [text.replace("(?<", "(?P<") for manager in managers for text in manager["matchStrings"]]
    text = (ROOT / "infra" / "cluster" / "charts.yaml").read_text()
    matches = [match for expression in expressions for match in re.finditer(expression, text)]

    assert sorted((match["depName"], match["currentValue"]) for match in matches) == sorted(
        (chart["chart"].removeprefix("oci://"), str(chart["version"])) for chart in charts if "chart" in chart
    )


WORKFLOW = {"ACTIONS_ID_TOKEN_REQUEST_URL": "http://github?"}
# output of each program that our scripts call
ANSWERS = {
    "aws": "echo hidden",
    "cosign": f"""case "$*" in
    verify*) expr "$*" : ".*{DIGEST}" ;;
    download*) test -e $RUNNER_TEMP/attested ;;
    attest*) touch $RUNNER_TEMP/attested ;;
    copy*) test -z "$READ_ONLY" ;;
    esac""",
    "curl": """echo '{"value": "oidc"}'""",
    "docker": f"""case "$*" in
    *:keep-*) test -n "$KEPT" ;;
    buildx*) test -e $RUNNER_TEMP/pushed && echo {DIGEST} ;;
    *RepoDigests*) echo "${{HERE:-ours/base@{DIGEST}}}" ;;
    "image inspect"*) echo "${{BUILT:-$(git rev-parse HEAD) for ${{PLATFORM:-linux/amd64}}}}" ;;
    push*) touch $RUNNER_TEMP/pushed ;;
    login*) cat ;;
    esac""",
    "gcloud": 'case "$*" in *print-access-token) echo hidden ;; esac',
    "jq": "cat",
}


@pytest.fixture
def run_script(tmp_path: Path) -> RunScript:
    """Run one of our scripts where other programs only log their calls and print their answers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, answer in ANSWERS.items():
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n{answer}\n')
        (folder / name).chmod(0o755)

    def run(script: str, *args: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | variables | {"PATH": path, "RUNNER_TEMP": str(tmp_path)}
        command = [ROOT / script, *args]
        return subprocess.run(command, cwd=ROOT, input=text, env=environment, capture_output=True, text=True)

    return run


@pytest.mark.slow
def test_signed_images_are_copied_under_their_version(run_script: RunScript, tmp_path: Path) -> None:
    images = f"# comment\nbase 0.3.0 {DIGEST}\nserving 0.3.0 {DIGEST}\n"

    done = run_script("containers/promote.sh", "dev", "prod", SIGNER, text=images)

    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0].endswith(f"--certificate-identity {SIGNER} dev/base@{DIGEST}")
    copies = [call for call in calls if call.startswith("cosign copy")]
    assert copies == [
        *(f"cosign copy dev/{name}@{DIGEST} prod/{name}:0.3.0" for name in ("base", "serving")),
        *(f"cosign copy prod/{name}@{DIGEST} prod/{name}:keep-{DIGEST[7:]}" for name in ("base", "serving")),
    ]


@pytest.mark.slow
def test_none_is_copied_when_one_is_not_signed(run_script: RunScript, tmp_path: Path) -> None:
    images = f"base 0.3.0 {DIGEST}\nserving 0.3.0 sha256:other\n"

    done = run_script("containers/promote.sh", "dev", "prod", SIGNER, text=images)

    assert done.returncode != 0
    assert "copy" not in (tmp_path / "calls").read_text()


@pytest.mark.slow
def test_a_promotion_of_no_image_is_refused(run_script: RunScript) -> None:
    done = run_script("containers/promote.sh", "dev", "prod", SIGNER, text="# comment\n")

    assert (done.returncode, done.stderr) == (2, "promote: containers/prod.txt names no image\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "options"),
    [
        (WORKFLOW, "sign --yes ours"),
        ({"SIGNING_KEY": "awskms:///alias/ours"}, "sign --yes --key awskms:///alias/ours ours"),
        ({"SIGNING_KEY": "keyless"}, "sign ours"),  # cosign asks before it publishes an e-mail address
    ],
)
def test_an_image_is_signed_and_listed_by_the_digest_that_our_registry_has_of_it(
    run_script: RunScript, tmp_path: Path, variables: dict[str, str], options: str
) -> None:
    done = run_script("containers/push.sh", "ours", "0.3.0", "base", **variables)

    assert (done.returncode, done.stdout) == (0, f"base 0.3.0 {DIGEST}\n"), done.stderr
    assert f"cosign {options}/base@{DIGEST}\n" in (tmp_path / "calls").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "code", "refusal"),
    [
        ({}, 2, "SIGNING_KEY is empty; name a key such as awskms:///"),
        (
            WORKFLOW | {"BUILT": "3f10-changed for linux/amd64"},
            2,
            "base:0.3.0 is of 3f10-changed for linux/amd64; it must be",
        ),
        (WORKFLOW | {"BUILT": "3f10 for linux/amd64"}, 2, "commit what you have changed, then make images"),
        (WORKFLOW | {"PLATFORM": "linux/arm64"}, 2, "for linux/arm64; it must be of"),
        (WORKFLOW | {"HERE": "ours/base@sha256:another"}, 1, "is not what was pushed from here"),
    ],
)
def test_only_what_was_built_of_this_commit_for_the_clusters_machines_is_signed(
    run_script: RunScript, tmp_path: Path, variables: dict[str, str], code: int, refusal: str
) -> None:
    done = run_script("containers/push.sh", "ours", "0.3.0", "base", **variables)

    assert (done.returncode, done.stdout) == (code, "")
    assert refusal in done.stderr
    calls = tmp_path / "calls"
    assert not calls.exists() or "cosign" not in calls.read_text()


@pytest.mark.slow
def test_an_image_that_is_there_and_signed_is_listed_and_stays_as_it_is(run_script: RunScript, tmp_path: Path) -> None:
    first = run_script("containers/push.sh", "ours", "0.3.0", "base", **WORKFLOW)
    (tmp_path / "calls").unlink()
    second = run_script("containers/push.sh", "ours", "0.3.0", "base", **WORKFLOW)

    assert (second.returncode, second.stdout) == (0, first.stdout), second.stderr
    assert "is there already and stays" in second.stderr
    assert not re.search(r"docker (push|tag)|cosign (sign|attest)", (tmp_path / "calls").read_text())


@pytest.mark.slow
def test_what_runs_is_tagged_once_and_a_reader_of_the_registry_is_told_who_can(
    run_script: RunScript, tmp_path: Path
) -> None:
    images = f"# comment\nbase 0.3.0 {DIGEST}\n"

    assert run_script("containers/keep.sh", "ours", text=images).returncode == 0
    assert f"cosign copy ours/base@{DIGEST} ours/base:keep-{DIGEST[7:]}" in (tmp_path / "calls").read_text()
    (tmp_path / "calls").unlink()
    assert run_script("containers/keep.sh", "ours", text=images, KEPT="yes", READ_ONLY="yes").returncode == 0
    assert "cosign" not in (tmp_path / "calls").read_text()
    refused = run_script("containers/keep.sh", "ours", text=images, READ_ONLY="yes")
    assert refused.returncode == 1 and "whoever may push there runs containers/keep.sh ours" in refused.stderr


@pytest.mark.slow
def test_an_image_says_whether_its_sources_were_committed() -> None:
    copied = {
        word.split("/")[0]
        for line in (ROOT / "containers" / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    (sources,) = re.findall("^IMAGE_SOURCES := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert set(sources.split()) == copied


@pytest.mark.slow
def test_digests_of_another_registrys_images_are_listed_and_a_missing_one_is_an_error(
    run_script: RunScript, tmp_path: Path
) -> None:
    assert run_script("containers/digests.sh", "dev", "0.3.0", "base").returncode

    (tmp_path / "pushed").touch()
    assert run_script("containers/digests.sh", "dev", "0.3.0", "base").stdout == f"base 0.3.0 {DIGEST}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("cloud", "user"), [("aws", "AWS"), ("gcp", "oauth2accesstoken")])
def test_a_workflow_signs_in_with_a_token_of_its_own_and_the_password_is_no_argument(
    run_script: RunScript, tmp_path: Path, cloud: str, user: str
) -> None:
    variables = dict.fromkeys(("AWS_ROLE_ARN", "AWS_REGION", "GCP_PROVIDER", "GCP_SERVICE_ACCOUNT"), "ours")
    request = {"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "request", "ACTIONS_ID_TOKEN_REQUEST_URL": "http://github?"}
    exported = {"GITHUB_ENV": str(tmp_path / "exported"), "REGISTRY": "registry.example.com/nightshift"}

    done = run_script(".ci/sign-in", **variables, **request, **exported, CLOUD=cloud)

    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text()
    assert f"docker login --username {user} --password-stdin registry.example.com\n" in calls
    assert "hidden" not in calls and "oidc" in (tmp_path / "oidc-token").read_text()


@pytest.mark.slow
def test_a_sign_in_without_a_cloud_is_refused(run_script: RunScript) -> None:
    done = run_script(".ci/sign-in", CLOUD="")

    assert (done.returncode, done.stderr[:24]) == (2, "sign-in: CLOUD is empty;")
