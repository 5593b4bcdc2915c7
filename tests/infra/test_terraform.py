"""What holds for every cloud's Terraform."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import terraform
from infra.cloud import answers as questions
from infra.cloud import rendering
from infra.cloud.answers import Size
from infra.policies import unknowns
from infra.policies.environment import describe
from infra.policies.findings import judge
from nightshift.runtime.errors import UnavailableError
from tests.infra import checks
from tests.infra.plans import Json, resources
from tests.infra.refusals import cases

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
def test_terraforms_own_tests_pass(cloud: str, with_terraform: None) -> None:
    terraform.run(cloud, "terraform test -no-color")


@each_environment
def test_every_environment_plans_only_new_resources(cloud: str, environment: str, planned: Callable) -> None:
    plan: Json = planned(cloud, environment)

    assert resources(plan)
    assert {tuple(change["change"]["actions"]) for change in plan["resource_changes"]} <= {("create",), ("read",)}


@each_environment
def test_the_plan_keeps_every_policy(cloud: str, environment: str, planned: Callable) -> None:
    answers = questions.read(cloud, environment)
    variables = rendering.variables(answers)
    plan = unknowns.resolve(planned(cloud, environment), cloud, answers.size, terraform.INFRA, variables)

    assert judge(describe(answers, plan)) == []


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


@pytest.mark.slow
@each_cloud
def test_every_condition_refuses_what_it_is_there_for_and_nothing_else_does(cloud: str, with_terraform: None) -> None:
    if not terraform.OFFLINE.exists():
        pytest.skip("../shared/terraform is missing: a plan would ask the cloud")
    conditions, seen = cases.conditions(terraform.INFRA / cloud), cases.refused(cloud)

    assert conditions
    assert {location: address for location, address in conditions.items() if location not in seen} == {}
    expected = Counter(address for case in cases.read(cloud) for address in case.refused_by)
    assert Counter(conditions[location] for location in seen.elements()) == expected


@pytest.mark.slow
@pytest.mark.xdist_group("terraform-aws")
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"~> 6', '"~> 5', "no available releases match the given constraints"),
        ('resource "aws_s3_bucket" ', 'resource "aws_s3_buckett" ', 'does not support resource type "aws_s3_buckett"'),
        ('resource "aws_s3_bucket" ', 'resource "aws_instance" ', 'argument named "bucket" is not expected'),
    ],
)
def test_offline_providers_refuse_versions_types_and_arguments_that_there_are_not(
    old: str, new: str, says: str, with_terraform: None, tmp_path: Path
) -> None:
    if not terraform.OFFLINE.exists():
        pytest.skip("../shared/terraform is missing: a registry would be asked")
    folder = Path(shutil.copytree(terraform.INFRA / "aws", tmp_path / "aws"))
    for path in folder.rglob("*.tf"):
        path.write_text(path.read_text().replace(old, new))

    with pytest.raises(UnavailableError, match=says):
        terraform.run("aws", "terraform validate -no-color", tmp_path)
