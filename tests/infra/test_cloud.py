"""Five commands from an empty account to the first night, and one back: what they do, and that they may be repeated."""

import functools
import json
import operator
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer

from infra import terraform
from infra.cloud import answers as questions
from infra.cloud import asking, core, rendering
from infra.cloud.answers import AdmissionController, Cloud, GpuChoices, NightlySchedule, Provisioning
from infra.terraform import INFRA
from nightshift.runtime.errors import UserError
from nightshift_testkit.servers import serving
from pipelines.images import EXAMPLE_REGISTRY
from tests.infra import kustomize, rendered
from tests.infra.charts import CHARTS, ROOT
from tests.infra.edges import needs
from tests.infra.edges.model import Cluster, Pod
from tests.infra.edges.policy import through
from tests.infra.plans import Json, resources

each_example = pytest.mark.parametrize("name", rendered.NAMES)
each_cloud = pytest.mark.parametrize("cloud", list(Cloud))
ROLE = "arn:aws:iam::444444444444:role/administrators"
FLAGS = {
    "cloud": "aws",
    "environment": "acme",
    "region": "eu-west-1",
    "zones": "eu-west-1a,eu-west-1b",
    "account.id": "444444444444",
    "account.administrators": ROLE,
    "budget.monthly": "500",
    "budget.emails": "ml@acme.test",
    "gpu.kueue": "true",
}
# what is left of an environment whose buckets are kept, and why
RETAINED = {
    "aws_kms_key": "what is in the bucket is encrypted with it",
    "aws_s3_bucket": "the data",
    "google_kms_crypto_key": "what is in the buckets is encrypted with it",
    "google_storage_bucket": "the data",
}

WORKFLOW = "https://github.com/acme/nightshift/.github/workflows/deliver.yaml@refs/heads/main"


def wrong(text: str) -> str:
    with pytest.raises(UserError) as refused:
        questions.parse(text.encode(), "infra/answers/aws-dev.yaml")
    return str(refused.value)


# the answers


@each_example
def test_an_example_is_written_as_init_writes_a_file(name: str) -> None:
    answers = rendered.read(name)

    assert questions.render(answers) == (questions.FOLDER / f"{name}.yaml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("size: dev", "size: huge", "size: Input should be 'try', 'dev' or 'prod', got 'huge'"),
        (
            "[base,",
            "[bsae,",
            "images.0: Input should be 'base', 'serving', 'serving-gpu', 'airflow', 'rapids' or 'worker', got 'bsae'",
        ),
        ("kueue:", "queue:", "gpu.queue: unknown key; remove it"),
        ("'000000000000'", "'12'", "account.id: String should match pattern '^[0-9]{12}$', got '12'"),
        ("us-east-1b", "eu-west-1b", "zones: eu-west-1b is none of region us-east-1"),
        ("us-east-1b", "us-east-11b", "zones: us-east-11b is none of region us-east-1"),
        ("us-east-1b", "us-east-1a", "zones names one twice"),
        ("autoscaler", "compute-class", "gpu: compute-class is available on gcp only; this is aws"),
        ("[spot, on-demand]", "[spot, spot]", "gpu.fallback names a capacity type twice"),
        ("cloud: aws", "cloud: gcp", "account does not match cloud gcp, whose fields are: id, billing_account, domain"),
        ("monthly: 1000", "monthly: no", "YAML 1.1 reads it as false"),
        ("egress: []", "egress: [10.0.0.1/16]", "egress: 10.0.0.1/16 has host bits set; write IPv4 ranges such as"),
    ],
)
def test_a_wrong_answer_is_named_with_what_is_allowed(old: str, new: str, says: str) -> None:
    text = re.sub(rf"^( *(?!#).*){re.escape(old)}", rf"\g<1>{new}", rendered_text("aws-dev"), flags=re.MULTILINE)

    assert says in wrong(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("region: us-east-1", "region: us-east-1;id"),
        ("region: us-east-1", "region: ''"),
        ("[us-east-1a,", "[us-east-1a;id,"),
        ("registry: null", "registry: registry.test/a$(id)"),
        ("registry: null", "registry: ''"),
        ("signer: null", "signer: a key"),
        ("config: fraud", "config: fraud'id"),
        ("data: simulator", "data: s3://a b"),
    ],
)
def test_what_reaches_a_shell_is_one_word_without_quotes(old: str, new: str) -> None:
    text = rendered_text("aws-dev")
    assert old in text

    assert "should match pattern" in wrong(text.replace(old, new))


@pytest.mark.parametrize("email", ["a#b@c.test", "#@c.test", "'@c.test", "1e5@c"])
def test_a_written_answer_is_read_as_the_same(email: str) -> None:
    answers = rendered.read("gcp-dev")
    budget = answers.budget.model_copy(update={"emails": [email]})
    odd = answers.model_copy(update={"budget": budget, "registry": "1e5", "signer": "1e6"})

    assert questions.parse(questions.render(odd).encode(), "file") == odd


@pytest.mark.slow
@each_cloud
def test_nights_are_scheduled_only_where_the_port_is_ours(cloud: str) -> None:
    lines = rendered.commands(rendered.read(f"{cloud}-dev"))["schedule"]
    (check,) = [line for line in lines if "/dev/tcp/localhost" in line]
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = check.replace(str(core.KUBEFLOW_PORT), str(other.getsockname()[1]))
        refused = subprocess.run(["bash", "-euc", taken], capture_output=True, text=True, check=False)
    freed = subprocess.run(["bash", "-euc", taken], capture_output=True, text=True, check=False)

    assert (refused.returncode, freed.returncode) == (2, 0)
    assert "something listens on port" in refused.stderr
    assert "port-forward" in lines[lines.index(check) + 1]


@pytest.mark.parametrize(
    ("config", "prefix"), [("machine-failure", "machine_failure"), ("pipelines/configs/fraud.yaml", "fraud")]
)
def test_the_dags_of_a_use_case_are_unpaused_by_its_name_also_where_its_config_is_a_file(
    config: str, prefix: str
) -> None:
    *_, details, unpause = schedule_smallest(config)

    assert f"airflow dags details {prefix}_training " in details and f"'^{prefix}_'" in unpause


def test_a_use_case_that_is_none_is_refused_where_its_dags_would_be_unpaused() -> None:
    with pytest.raises(UserError, match=r"config 'fruad' does not exist.*'fraud'"):
        schedule_smallest("fruad")


@pytest.mark.slow
@pytest.mark.parametrize(("dag", "code"), [("fraud_training", 0), ("topics_training", 2)])
def test_dags_that_airflow_does_not_have_are_not_unpaused(dag: str, code: int, tmp_path: Path) -> None:
    script = f'#!/bin/sh\nshift 9\nif [ "$1" = details ]; then [ "$2" = {dag} ]; else echo "$1"; fi\n'
    (tmp_path / "kubectl").write_text(script)
    (tmp_path / "kubectl").chmod(0o755)
    commands = "\n".join(schedule_smallest("fraud")[-2:])
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euc", commands], capture_output=True, text=True, check=False, env=environment)

    assert (done.returncode, "unpause" in done.stdout) == (code, not code)
    assert ("cloud: Airflow has no DAG fraud_training; write its file" in done.stderr) is bool(code)


def schedule_smallest(config: str) -> list[str]:
    answers = rendered.read("aws-try").model_copy(update={"schedule": NightlySchedule(config=config)})
    return core.schedule(answers, rendered.infrastructure(answers), rendered.DIGESTS)


def rendered_text(name: str) -> str:
    return (questions.FOLDER / f"{name}.yaml").read_text()


def test_an_environment_that_nobody_has_answered_for_says_how_to() -> None:
    with pytest.raises(UserError, match=r"did you mean 'aws-dev'.*nightshift cloud init --cloud aws --environment deb"):
        questions.read("aws", "deb")


def test_init_writes_what_flags_say_and_asks_for_what_has_no_default(tmp_path: Path) -> None:
    prompts = []

    def ask(question: str) -> str:
        prompts.append(question)
        return "eu-west-1"

    prompt = asking.Prompt(ask, tmp_path / "init.json")
    answers, file = asking.write({name: text for name, text in FLAGS.items() if name != "region"}, prompt, tmp_path)

    assert [question.partition(",")[0] for question in prompts] == ["region"]
    assert questions.read("aws", "acme", tmp_path) == answers and file.name == "aws-acme.yaml"
    assert answers.zones == ["eu-west-1a", "eu-west-1b"] and answers.gpu.kueue and answers.budget.monthly == 500


def test_init_names_what_is_missing_where_nobody_can_be_asked_and_overwrites_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"region: missing.*\n.*budget.emails: missing"):
        asking.write({**FLAGS, "region": None, "budget.emails": None}, None, tmp_path)
    asking.write(FLAGS, None, tmp_path)
    with pytest.raises(UserError, match=r"aws-acme.yaml exists; edit it"):
        asking.write(FLAGS, None, tmp_path)


@pytest.mark.parametrize("end", [KeyboardInterrupt, EOFError])
def test_an_init_that_was_stopped_or_refused_offers_what_was_typed(end: type[BaseException], tmp_path: Path) -> None:
    draft = tmp_path / "runs" / "init.json"

    def init(*lines: str) -> list[str]:
        """Type lines and then end; return the prompts."""
        prompts, typed = [], iter(lines)

        def ask(question: str) -> str:
            prompts.append(question)
            line = next(typed, None)
            if line is None:
                raise end
            return line

        asking.write({}, asking.Prompt(ask, draft), tmp_path)
        return prompts

    with pytest.raises(UserError, match=r"stopped at zones; typed answers are kept in .*init.json: run the same"):
        init("aws", "acme", "eu-west-1")
    with pytest.raises(UserError, match=r"account.id: String should match.*\n.*typed answers are kept"):
        init("", "", "", "eu-west-1a, eu-west-1b", "12", ROLE, "500", "ml@acme.test")
    prompts = init("", "", "", "", "4" * 12, "", "", "")

    offered = [prompts[index].rpartition(" [")[2] for index in (0, 3, 4)]
    assert offered == ["aws]: ", "eu-west-1a, eu-west-1b]: ", "12]: "]
    assert questions.read("aws", "acme", tmp_path).zones == ["eu-west-1a", "eu-west-1b"] and not draft.exists()


def test_a_session_of_a_role_is_read_as_the_role_where_its_name_says_it_whole() -> None:
    session = "arn:aws:sts::444444444444:assumed-role/{}/ann@acme.test"

    answers = questions.parse(with_administrator(session.format("administrators")).encode(), "file")

    assert answers.account.administrators == [ROLE]
    single_sign_on = wrong(with_administrator(session.format("AWSReservedSSO_Admin_0a1b")))
    assert "give the ARN of the role, which this prints: aws iam get-role --role-name AWSReservedSSO_Admin_0a1b" in (
        single_sign_on
    )


def with_administrator(arn: str) -> str:
    return rendered_text("aws-dev").replace("arn:aws:iam::000000000000:role/administrators", arn)


# what follows from them


@each_example
def test_terraform_knows_every_variable_and_they_are_those_of_the_size_for_an_example(name: str) -> None:
    answers = rendered.read(name)
    text = (INFRA / answers.cloud / f"{answers.size}.tfvars").read_text()
    in_size = dict(re.findall(r'^(environment|region|project_id) += "(.*)"$', text, re.MULTILINE))

    assert in_size.items() <= rendering.variables(answers).items()


def test_a_variable_of_terraform_may_be_set_unless_an_answer_does_or_there_is_none() -> None:
    answers = rendered.read("aws-dev")

    assert rendering.variables(answers.model_copy(update={"terraform": {"log_days": 7}}))["log_days"] == 7
    for name in ("region", "log_day"):
        with pytest.raises(UserError, match=f"terraform.{name}: unknown; allowed here: .*log_days"):
            rendering.variables(answers.model_copy(update={"terraform": {name: 7}}))


@pytest.mark.slow
@each_example
def test_overlays_name_what_terraform_made_and_nothing_of_the_examples(name: str) -> None:
    answers, text = rendered.read(name), json.dumps(kustomize.built(rendered.overlays(name)))

    assert EXAMPLE_REGISTRY not in text
    used = re.findall(rf"{re.escape(rendered.infrastructure(answers).registry)}/(\w+)@(sha256:\w+)", text)
    assert all(rendered.DIGESTS[image] == digest for image, digest in used)
    volumes = [value for value in kustomize.built(rendered.overlays(name)) if value["kind"] == "PersistentVolume"]
    outputs = rendered.outputs(answers)
    shared = outputs.get("lustre", outputs.get("volume", {})).get("value")
    assert [volume["spec"]["csi"]["volumeHandle"] for volume in volumes] == (
        [shared.get("id", shared.get("handle"))] if shared else []
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "group"), [("aws-dev", ""), ("gcp-dev", "@acme.test")])
def test_people_are_in_the_groups_of_their_own_domain(name: str, group: str, tmp_path: Path) -> None:
    answers = rendered.read(name)
    if answers.cloud is Cloud.GCP:
        account = answers.account.model_copy(update={"domain": "acme.test"})
        answers = answers.model_copy(update={"account": account})
    rendered.lay_out(answers, tmp_path)
    bindings = [value for value in kustomize.built(tmp_path / "namespaces") if value["kind"] == "RoleBinding"]
    groups = {subject["name"] for value in bindings for subject in value["subjects"] if subject["kind"] == "Group"}

    assert groups == {f"nightshift-{who}{end}" for who in ("operators", "readers") for end in {"", group}}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aws-dev", "gcp-try"])
def test_steps_and_trainings_call_only_the_ranges_of_an_allow_list(name: str, tmp_path: Path) -> None:
    answers = rendered.read(name).model_copy(update={"egress": ["10.0.0.0/16", "192.0.2.0/24"]})
    rendered.lay_out(answers, tmp_path)
    built = [*kustomize.built(tmp_path), *kustomize.built(tmp_path / "namespaces")]
    policies = [value | value["metadata"] for value in built if value["kind"] == "NetworkPolicy"]
    cluster = Cluster(tuple(policies), (), ())
    pods = [
        Pod("step", "kubeflow", needs.STEP),
        Pod("machine of a TrainJob", "kubeflow", {}),
        Pod("mlflow", "nightshift", {}),
    ]

    called = {
        (pod.name, address)
        for pod in pods
        for address in ("10.0.3.4", "192.0.2.9", "198.51.100.1")
        if through(cluster, pod, address, 443, "TCP")["egress"]
    }
    inside = {(pod.name, address) for pod in pods[:2] for address in ("10.0.3.4", "192.0.2.9")}
    assert {call for call in called if call[0] != "mlflow"} == inside and ("mlflow", "198.51.100.1") in called


@each_cloud
def test_outputs_that_lack_something_say_which_command_makes_them(cloud: str) -> None:
    with pytest.raises(UserError, match=f"lacks .*; run: make cloud-up CLOUD={cloud} ENV=dev"):
        rendering.read_outputs(rendered.read(f"{cloud}-dev"), "{}")


@each_cloud
def test_an_output_that_is_read_is_one_of_terraforms(cloud: str) -> None:
    declared = set(re.findall(r'^output "(\w+)"', (INFRA / cloud / "outputs.tf").read_text(), re.MULTILINE))

    assert rendered.outputs(rendered.read(f"{cloud}-dev")).keys() <= declared


# the commands


@pytest.mark.slow
@each_example
def test_the_commands_are_a_script_that_a_shell_reads(name: str) -> None:
    for commands in rendered.commands(rendered.read(name)).values():
        script = "\n".join(core.script(commands))

        subprocess.run(["bash", "-n", "-c", script], check=True)
        assert EXAMPLE_REGISTRY not in script


def make(target: str, *words: str) -> subprocess.CompletedProcess[str]:
    binaries = Path(sys.executable).parent
    flags = [f"BIN={binaries}", f"--old-file={binaries}/python", "--old-file=.venv/.dev", "VENV=.venv"]
    line = ["make", "--no-print-directory", "--directory", str(ROOT), *flags, target, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_dry_run_prints_the_commands_and_gives_none_to_a_shell() -> None:
    answers = rendered.read("gcp-dev")
    done = make("cloud-up", "CLOUD=gcp", "ENV=dev", "DRY_RUN=1")

    assert done.stdout.splitlines() == core.script(core.up(answers)), done.stderr


@pytest.mark.slow
def test_what_is_missing_is_said_without_a_traceback() -> None:
    protected, unsaid = make("cloud-down", "CLOUD=aws", "ENV=prod"), make("cloud-down", "CLOUD=aws", "ENV=dev")

    assert protected.returncode and "deletion_protection: false in infra/answers/aws-prod.yaml" in protected.stderr
    assert unsaid.returncode and "BUCKETS is empty; give keep or delete" in unsaid.stderr
    assert "Traceback" not in protected.stderr + unsaid.stderr


@each_cloud
def test_policies_and_quotas_are_checked_before_anything_is_made(cloud: str) -> None:
    lines = core.up(rendered.read(f"{cloud}-dev"))
    (check,) = [number for number, line in enumerate(lines) if line.startswith(f"nightshift doctor --cloud {cloud}")]

    assert "plan" in lines[check - 2] and " apply " in lines[check + 1]
    assert f"python -m infra.policies {cloud} dev" in lines[:check]
    assert not any(" apply " in line for line in lines[:check])


@each_cloud
def test_the_api_is_reached_by_a_kubeconfig_of_its_own(cloud: str) -> None:
    """Whatever context somebody has chosen: nothing is installed into, or removed from, another cluster."""
    answers = rendered.read(f"{cloud}-dev")
    for action in ("install", "schedule", "down"):
        lines = rendered.commands(answers)[action]
        chosen = lines.index(f"export KUBECONFIG=$PWD/runs/cloud/{answers.name}/kubeconfig")
        assert not any(re.search(r"\b(kubectl|helm)\b", line) for line in lines[:chosen]), action


def test_an_environment_that_runs_anothers_images_builds_none() -> None:
    answers = rendered.read("aws-prod").model_copy(
        update={"registry": "111111111111.dkr.ecr.eu-west-1.amazonaws.com/dev", "signer": WORKFLOW}
    )
    lines = core.images(answers, rendered.infrastructure(answers))

    assert not any("make images" in line or "push" in line for line in lines)
    assert any(line.startswith(f"containers/digests.sh {answers.registry} ") for line in lines)
    assert any(line.startswith(f"containers/keep.sh {answers.registry} <") for line in lines)


def test_images_are_verified_before_they_are_installed() -> None:
    own = rendered.read("aws-dev")
    others = own.model_copy(update={"registry": "registry.test/dev", "signer": WORKFLOW})
    for answers, signer in ((own, "--key awskms:///"), (others, f"--certificate-identity {WORKFLOW}")):
        install = rendered.commands(answers)["install"]
        verified = [index for index, line in enumerate(install) if line.startswith("cosign verify ") and signer in line]
        assert len(verified) == len(rendered.DIGESTS)
        assert max(verified) < min(
            index for index, line in enumerate(install) if re.search(r"\b(kubectl|helm)\b", line)
        )


def test_kyverno_admits_images_by_the_signer_that_the_installation_verifies(tmp_path: Path) -> None:
    own = rendered.read("aws-dev")
    chosen = own.model_copy(update={"admission": AdmissionController.KYVERNO})
    others = chosen.model_copy(update={"registry": "registry.test/dev", "signer": WORKFLOW})
    for answers, field in ((chosen, ("key", "kms")), (others, ("keyless", "identities", 0, "subject"))):
        rendered.lay_out(answers, tmp_path)
        policy = yaml.safe_load((tmp_path / rendering.ADMISSION).read_text())["spec"]
        install = rendered.commands(answers)["install"]
        (attestor,) = policy["attestors"]
        signer = functools.reduce(operator.getitem, field, attestor["cosign"])
        verified = [line for line in install if line.startswith("cosign verify ") and f" {signer} " in line]
        (reference,) = policy["matchImageReferences"]

        assert all(fnmatch(line.split()[-2], reference["glob"]) for line in verified)
        assert len(verified) == len(rendered.DIGESTS)
        (validation,) = policy["validations"]
        assert f"filter(image, image.startsWith('{reference['glob'][:-1]}'))" in validation["expression"]
        assert f"[attestors.{attestor['name']}]" in validation["expression"]
        assert install[-1] == f'kubectl apply --server-side --filename "$OVERLAYS/{rendering.ADMISSION}"'
    assert not any(rendering.ADMISSION in line for line in rendered.commands(own)["install"])


def test_another_environments_images_need_the_name_of_who_signed_them() -> None:
    text = rendered_text("aws-dev").replace("registry: null", "registry: registry.test/dev")

    assert "registry and signer: set both" in wrong(text)


def test_unusual_costs_are_watched_unless_the_account_may_not() -> None:
    answers = rendered.read("aws-dev")
    member = answers.model_copy(update={"budget": answers.budget.model_copy(update={"anomalies": False})})

    limits = [rendering.variables(chosen)["budget"]["anomaly_usd"] for chosen in (answers, member)]
    assert limits == [50, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("echo None", ""),
        ("echo Tag keys not found: project", "tomorrow: make cloud-up CLOUD=aws ENV=dev; it answers: Tag keys not"),
        ('echo "Linked account doesn\'t have access to cost allocation tags." >&2; exit 254', "is a member account"),
        ("echo 'Unable to locate credentials' >&2; exit 253", "it answers: Unable to locate credentials"),
    ],
)
def test_tags_that_stay_inactive_are_reported_with_the_reason(answer: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "aws").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "aws").chmod(0o755)
    lines = core.up(rendered.read("aws-dev"))
    first = next(index for index, line in enumerate(lines) if line.startswith("refused="))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = "\n".join(lines[first:])
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=environment, capture_output=True, text=True)

    assert done.returncode == 0 and says in done.stderr and bool(done.stderr) is bool(says)


def test_karpenters_pools_come_with_the_choice_only() -> None:
    answers = rendered.read("aws-dev")
    chosen = answers.model_copy(update={"gpu": GpuChoices(provisioning=Provisioning.KARPENTER)})
    pools = 'kubectl apply -k "$OVERLAYS/karpenter"'

    assert pools in rendered.commands(chosen)["install"] and pools not in rendered.commands(answers)["install"]


# for real, as far as there is something that answers


def run(script: list[str], **environment: str) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(script)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def works(tool: str) -> bool:
    """Whether a cloud's own command line is here."""
    try:
        return subprocess.run([tool, "--version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def amazon() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.mark.slow
def test_the_bucket_of_the_states_is_made_on_aws_once(amazon: str, tmp_path: Path) -> None:
    if not works("aws"):
        pytest.skip("the AWS CLI is not on PATH: no bucket was made")
    account = rendered.read("aws-dev").account.model_copy(update={"id": "123456789012"})
    answers = rendered.read("aws-dev").model_copy(update={"account": account, "region": "eu-west-1"})
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": amazon}
    s3 = boto3.client(
        "s3", endpoint_url=amazon, aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1"
    )

    def state() -> list[Any]:
        name = core.bucket(answers)
        creation_dates = [bucket["CreationDate"] for bucket in s3.list_buckets()["Buckets"] if bucket["Name"] == name]
        access = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
        return [
            *creation_dates,
            s3.get_bucket_versioning(Bucket=name)["Status"],
            s3.get_bucket_location(Bucket=name)["LocationConstraint"],
            access,
        ]

    run(core.state(answers), **keys, HOME=str(tmp_path))
    before = state()
    run(core.state(answers), **keys, HOME=str(tmp_path))

    assert state() == before and before[1:3] == ["Enabled", "eu-west-1"] and set(before[3].values()) == {True}


@pytest.mark.slow
def test_another_account_than_the_answers_is_refused_before_anything_is_made(amazon: str, tmp_path: Path) -> None:
    if not works("aws"):
        pytest.skip("the AWS CLI is not on PATH: nobody is logged in")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": amazon}
    with pytest.raises(AssertionError, match=r"another account than account.id in infra/answers/aws-dev.yaml"):
        run(core.state(rendered.read("aws-dev")), **keys, HOME=str(tmp_path))


@pytest.mark.slow
def test_karpenters_first_spot_node_finds_the_role_of_spot_instances(amazon: str, tmp_path: Path) -> None:
    if not works("aws"):
        pytest.skip("the AWS CLI is not on PATH: no role was made")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": amazon}
    identity = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    iam = boto3.client("iam", endpoint_url=amazon, **identity)
    answers = rendered.read("aws-dev")
    karpenter = answers.model_copy(update={"gpu": GpuChoices(provisioning=Provisioning.KARPENTER)})
    (create,) = {*core.up(karpenter)} - {*core.up(answers)}

    for _ in range(2):
        run([create], **keys, AWS_DEFAULT_REGION="us-east-1", HOME=str(tmp_path))

    assert [role["Path"] for role in iam.list_roles()["Roles"]] == ["/aws-service-role/spot.amazonaws.com/"]


class GoogleApi(BaseHTTPRequestHandler):
    """Cloud Storage and Service Usage, as far as a bucket of states asks them."""

    buckets: ClassVar[dict[str, Json]] = {}
    enabled: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].rpartition("/b/")[2]
        self.reply(self.buckets[name]) if name in self.buckets else self.reply({"error": {"code": 404}}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "services:batchEnable" in self.path:
            self.enabled.update(body["serviceIds"])
            self.reply({"name": "operations/noop.DONE_OPERATION", "done": True, "response": {}})
        elif body["name"] in self.buckets:
            self.reply({"error": {"code": 409}}, 409)
        else:
            self.buckets[body["name"]] = body
            self.reply(body)

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.buckets[body["name"]] |= body
        self.reply(self.buckets[body["name"]])

    def reply(self, value: Json, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_the_bucket_of_the_states_is_made_on_google_cloud_once(tmp_path: Path) -> None:
    if not works("gcloud"):
        pytest.skip("gcloud is not on PATH: no bucket was made")
    answers = rendered.read("gcp-dev")
    with ThreadingHTTPServer(("127.0.0.1", 0), GoogleApi) as server, serving(server):
        url = f"http://127.0.0.1:{server.server_port}"
        settings = {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{url}/storage/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{url}/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CONFIG": str(tmp_path),
        }
        run(core.state(answers), **settings)
        before = json.dumps(GoogleApi.buckets)
        run(core.state(answers), **settings)

    (bucket,) = GoogleApi.buckets.values()
    assert json.dumps(GoogleApi.buckets) == before
    assert bucket["location"] == "europe-west4" and bucket["versioning"] == {"enabled": True}
    assert bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert GoogleApi.enabled == {"serviceusage.googleapis.com", "cloudresourcemanager.googleapis.com"}


# the way back


def is_kept(address: str, targets: list[str]) -> bool:
    """Whether a destroy that points at some modules and resources leaves a resource."""
    return not any(re.match(rf"{re.escape(target)}(\.|\[|$)", address) for target in targets)


@pytest.mark.slow
@each_cloud
def test_what_bears_a_price_is_gone_but_for_data_that_somebody_has_asked_to_keep(cloud: str, planned: Any) -> None:
    answers = rendered.read(f"{cloud}-dev")
    free = yaml.safe_load((INFRA / "costs/prices.yaml").read_text())[cloud]["free"]
    (destroy,) = [line for line in core.down(CHARTS, answers, core.Data.KEEP) if " destroy " in line]
    targets = re.findall(r"-target=(\S+)", destroy)
    plan = planned(cloud, "dev")
    left = {resource.type for resource in resources(plan) if is_kept(resource.address, targets)}

    assert left - free.keys() <= RETAINED.keys() and left & RETAINED.keys()
    assert not any("-target" in line for line in core.down(CHARTS, answers, core.Data.DELETE))


TOOLS = {
    "aws": 'case "$*" in sts*) echo 000000000000 ;; *) true ;; esac',
    "gcloud": "true",
    "nightshift": 'test -s "$5" && case "$*" in "doctor --cloud "*) exit ;; esac; exit 1',
    # the state is in a file, and not in a bucket
    "terraform": """for word; do
  shift
  case $word in -backend-config=*) ;; *) set -- "$@" "$word" ;; esac
done
exec {terraform} "$@"
""",
    "python": 'test $2 = infra.policies || PYTHONPATH={root} exec {python} "$@"',
}


def put_tools(folder: Path) -> None:
    folder.mkdir()
    known = {"{terraform}": str(shutil.which("terraform")), "{root}": str(ROOT), "{python}": sys.executable}
    for name, script in TOOLS.items():
        for old, new in known.items():
            script = script.replace(old, new)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


@pytest.mark.slow
@pytest.mark.xdist_group("terraform-aws")
def test_up_given_twice_changes_nothing_and_down_leaves_the_data_or_nothing(
    with_terraform: None, tmp_path: Path
) -> None:
    answers, tree, tools = rendered.read("aws-try"), tmp_path / "tree", tmp_path / "tools"
    put_tools(tools)
    shutil.copytree(INFRA, tree / "infra", ignore=shutil.ignore_patterns("gcp", "__pycache__"))
    up, keep, delete = (
        "\n".join(lines)
        for lines in (
            core.up(answers),
            core.down(CHARTS, answers, core.Data.KEEP),
            core.down(CHARTS, answers, core.Data.DELETE),
        )
    )
    listed = "TF_DATA_DIR=$PWD/runs/cloud/aws-try/.terraform terraform -chdir=infra/aws state list"
    parts = {"first": up, "second": up, "kept": f"{keep}\n{listed}", "left": f"{delete}\n{listed}"}
    for name, script in parts.items():
        (tools / name).write_text(script)
    steps = " && ".join(f"bash -euo pipefail {tools}/{name} >{tmp_path}/{name}.log" for name in parts)
    terraform.run("infra/aws", f"cd ../.. && export PATH={tools}:$PATH && {steps}", tree)

    first, second, kept, left = ((tmp_path / f"{name}.log").read_text() for name in parts)
    assert re.search(r"Resources: \d\d+ added, 0 changed, 0 destroyed", first)
    assert "Your infrastructure matches the configuration." in second
    assert "Resources: 0 added, 0 changed, 0 destroyed" in second
    types = {address.split(".")[-2] for address in re.findall(r"^module\.\S+", kept, re.MULTILINE)}
    assert "aws_s3_bucket" in types and not any(kind.startswith(("aws_eks", "aws_nat", "aws_ecr")) for kind in types)
    assert re.findall(r"^module\.\S+", left, re.MULTILINE) == []


# what a person does, counted


def test_a_person_gives_five_commands_a_cloud_and_edits_one_file() -> None:
    """What the runbook has somebody type, and the files to write into: the table in docs/guides/infrastructure.md."""
    runbook = (ROOT / "docs/runbooks/bring-up.md").read_text()
    for cloud in Cloud:
        typed = re.findall(rf"^ *(make cloud-\w+) CLOUD={cloud} ENV=dev$", runbook, re.MULTILINE)
        assert typed == [f"make cloud-{name}" for name in ("state", "up", "images", "install", "schedule")]
    assert set(re.findall(r"`(infra/\S+|pipelines/\S+)`", runbook)) == {"infra/answers/<cloud>-<environment>.yaml"}
    page = (ROOT / "docs/guides/infrastructure.md").read_text()
    assert re.search(r"^\| now \| 5 \| 1 \| 5 \| 1 \|$", page, re.MULTILINE)


@pytest.mark.slow
def test_the_command_line_hands_on_to_a_checkouts_infra_and_says_where_there_is_none(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "pipelines.cli", "cloud", "schema"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    here, elsewhere = (
        subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        for folder in (ROOT, tmp_path)
    )

    assert json.loads(here.stdout)["title"] == "EnvironmentAnswers"
    assert elsewhere.returncode == 2 and "has no infra/cloud; run nightshift cloud in a checkout" in elsewhere.stderr
