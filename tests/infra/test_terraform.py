"""What holds for every cloud's Terraform."""

import copy
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import terraform
from infra.cloud.answers import Size
from tests.infra import checks
from tests.infra.plans import Json, resources

CLOUDS = [pytest.param(cloud, marks=pytest.mark.xdist_group(f"terraform-{cloud}")) for cloud in checks.CLOUDS]
each_cloud = pytest.mark.parametrize("cloud", CLOUDS)
each_environment = pytest.mark.parametrize(
    ("cloud", "environment"),
    [
        pytest.param(cloud, name, marks=pytest.mark.xdist_group(f"terraform-{cloud}"))
        for cloud in checks.CLOUDS
        for name in checks.environments(cloud)
    ],
)
BLOCK = re.MULTILINE | re.DOTALL
POOL, TIED = "google_container_node_pool", "google_storage_bucket_iam_member"
GPU = {"nightshift/pool": "gpu"}
NODE = {"guest_accelerator": [{"count": 1}], "labels": {}, "spot": False, "taint": []}
CLOSED = {"protocol": "tcp", "ports": ["443"]}
# keys of AWS, Google, GitHub, Slack and of certificates, and what is random and as long as such keys are
CREDENTIAL = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}|-----BEGIN [A-Z ]*PRIVATE KEY|\bgh[opsu]_\w{36}|\bxox[abps]-\w{10}"
    r"|(?<![\w/.+-])(?=[A-Za-z+/]*\d)(?=[\w+]*[A-Za-z])[\w+]{40,}={0,2}(?![\w/.+-])"
)
FILES = ["main.tf", "outputs.tf", "variables.tf"]


def variables(text: str) -> list[str]:
    """The `variable` blocks of a file that `terraform fmt` has put into its form."""
    return [block.split("\n}\n")[0] for block in text.split("\nvariable ")[1:]]


@each_cloud
def test_terraform_would_format_nothing_otherwise(cloud: str, with_terraform: None) -> None:
    terraform.run(cloud, "terraform fmt -check -recursive -diff .")


@each_cloud
def test_the_configuration_is_valid(cloud: str, with_terraform: None) -> None:
    terraform.run(cloud, "terraform validate -no-color")


@each_cloud
def test_terraforms_own_tests_pass(cloud: str, with_terraform: None) -> None:
    terraform.run(cloud, "terraform test -no-color")


@each_environment
def test_every_environment_plans_only_new_resources(cloud: str, environment: str, planned: Callable) -> None:
    plan: Json = planned(cloud, environment)

    assert resources(plan)
    assert {tuple(change["change"]["actions"]) for change in plan["resource_changes"]} <= {("create",), ("read",)}


@each_environment
def test_the_plan_keeps_every_policy(cloud: str, environment: str, planned: Callable) -> None:
    plan = planned(cloud, environment)

    assert {name: list(policy(plan)) for name, policy in checks.policies(cloud).items() if list(policy(plan))} == {}


@pytest.mark.parametrize(
    ("cloud", "name", "kind", "argument", "value", "says"),
    [
        ("aws", "nodes_are_what_the_pipelines_ask_for", "aws_eks_node_group", "taint", [], "has the taints []"),
        ("aws", "nodes_are_what_the_pipelines_ask_for", "aws_eks_node_group", "labels", GPU, "no node is labeled"),
        (
            "aws",
            "who_is_in_a_group_of_people_is_said",
            "aws_eks_access_entry",
            "kubernetes_groups",
            ["a"],
            "nobody can",
        ),
        (
            "aws",
            "what_costs_by_the_hour_bears_the_tags_of_the_budget",
            "aws_launch_template",
            "tag_specifications",
            [],
            "a volume bears None",
        ),
        (
            "aws",
            "what_costs_by_the_hour_bears_the_tags_of_the_budget",
            "aws_eks_addon",
            "configuration_values",
            None,
            "disks of claims bear {}",
        ),
        ("gcp", "pools_have_the_labels_and_taints_that_steps_expect", POOL, "node_config", [NODE], "is labeled"),
        ("gcp", "webhooks_are_reached_from_the_control_plane", "google_compute_firewall", "allow", [CLOSED], "in vain"),
        (
            "gcp",
            "every_api_that_is_asked_is_on",
            "google_project_service",
            "service",
            "x",
            "cloudresourcemanager is off",
        ),
        ("gcp", "who_is_in_a_group_of_people_is_said", "google_project_iam_member", "member", "x", "finds the cluster"),
        ("gcp", "buckets_know_the_accounts_of_steps", TIED, "member", "x", "no bucket knows kubeflow/"),
    ],
)
def test_a_policy_says_what_breaks_it(
    cloud: str, name: str, kind: str, argument: str, value: object, says: str, planned: Callable
) -> None:
    plan = copy.deepcopy(planned(cloud, "dev"))
    for resource in resources(plan, kind):
        resource.values[argument] = value

    assert [complaint for complaint in checks.policies(cloud)[name](plan) if says in complaint]


@each_cloud
def test_checkov_finds_nothing(cloud: str) -> None:
    checks.checkov(cloud, terraform.INFRA)


@each_cloud
def test_every_module_has_the_same_three_files(cloud: str) -> None:
    """Versions are the root's: modules are used there only, and all providers are HashiCorp's."""
    modules = [path for path in (terraform.INFRA / cloud / "modules").iterdir() if path.is_dir()]

    assert modules
    for module in modules:
        assert sorted(path.name for path in module.glob("*.tf")) == FILES


@each_cloud
def test_terraform_reads_no_other_file_and_no_other_value_than_those_that_are_planned_here(cloud: str) -> None:
    """It takes values from every *.auto.tfvars by itself, and lets every override.tf change what stands elsewhere."""
    root = terraform.INFRA / cloud
    environments = [f"{size}.tfvars" for size in Size]

    paths = [path.relative_to(root) for path in root.rglob("*.tf*") if "tests" not in path.relative_to(root).parts]
    modules = {Path("modules", path.name, name) for path in (root / "modules").iterdir() for name in FILES}
    assert {*map(str, paths)} == {"versions.tf", *FILES, *environments, *map(str, modules)}


@each_cloud
def test_every_module_is_in_the_table_of_modules(cloud: str) -> None:
    text = (terraform.INFRA / cloud / "README.md").read_text()
    (table,) = re.findall(r"^\| module \| creates \|\n\|[ |-]+\n((?:\|.*\n)+)", text, re.MULTILINE)

    modules = sorted(path.name for path in (terraform.INFRA / cloud / "modules").iterdir())
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == modules


def test_nothing_that_looks_like_a_credential_is_in_a_file() -> None:
    for path in (path for path in terraform.INFRA.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        assert [match[0] for match in CREDENTIAL.finditer(path.read_text())] == [], path


@pytest.mark.parametrize("text", ["AKIA" + 16 * "A", "-----BEGIN RSA PRIVATE KEY-----", "ghp_" + 36 * "a", 40 * "a1"])
def test_a_credential_is_told_from_what_is_no_secret(text: str) -> None:
    assert CREDENTIAL.search(f"key: {text}\n")
    assert not CREDENTIAL.search("arn:aws:iam::000000000000:role/x https://example.com/a/b 012345-6789AB-CDEF01")


@each_cloud
def test_only_local_modules_are_used(cloud: str) -> None:
    text = (terraform.INFRA / cloud / "main.tf").read_text()

    sources = [line.split('"')[1] for line in text.splitlines() if line.strip().startswith("source ")]
    assert sources
    assert all(source.startswith("./modules/") for source in sources)


@each_cloud
def test_every_variable_has_a_type_and_a_description(cloud: str) -> None:
    for path in sorted((terraform.INFRA / cloud).rglob("variables.tf")):
        for block in variables("\n" + path.read_text()):
            assert "\n  description = " in block and "\n  type " in block, f"{path}: {block.splitlines()[0]}"


def conditions(root: Path) -> Counter[tuple[str, str]]:
    """How many conditions each variable and resource has, by its module ("." is the root) and its address."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in root.rglob("*.tf"):
        for kind, names, body in re.findall(r'^(variable|resource) ("[^{]+) \{\n(.*?)^\}', path.read_text(), BLOCK):
            address = ".".join([*(["var"] if kind == "variable" else []), *re.findall(r'"(.*?)"', names)])
            count = len(re.findall(r"^ +(?:validation|precondition) \{", body, re.MULTILINE))
            counts[str(path.parent.relative_to(root)), address] += count
    return +counts


def failures(root: Path) -> Counter[tuple[str, str]]:
    """How often Terraform's tests expect each variable and resource to refuse something."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in (root / "tests").glob("*.tftest.hcl"):
        for run in re.findall(r"^run .*?^\}", path.read_text(), BLOCK):
            module = re.search(r'source = "\./(.*?)"', run)
            expected = "".join(re.findall(r"expect_failures = \[(.*?)\]$", run, BLOCK))
            addresses = re.sub(r"\[.*?\]", "", expected).replace(",", " ").split()
            counts.update((module[1] if module else ".", address) for address in addresses)
    return counts


@each_cloud
def test_every_condition_is_seen_to_fail(cloud: str) -> None:
    """What has conditions is refused in as many `expect_failures`, so that none of them is a decoration."""
    root = terraform.INFRA / cloud
    written = conditions(root)

    assert written
    assert written - failures(root) == Counter()
