"""Policies by meaning: realistic mistakes are named, and what others have otherwise is left alone."""

import dataclasses
import functools
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from infra.cloud.answers import Waiver
from infra.policies import environment, quantities
from infra.policies.__main__ import main
from infra.policies.findings import judge, report
from infra.policies.limits import READERS
from infra.policies.model import POLICIES, Environment, Resource, table
from infra.policies.secrets import read_keys
from infra.terraform import INFRA
from nightshift.runtime.errors import UserError
from tests.infra import checks, customers
from tests.infra.injected import policies
from tests.infra.injected.faults import Fault, group, inject, read_mistakes

TERRAFORM = {cloud: pytest.mark.xdist_group(f"terraform-{cloud}") for cloud in checks.CLOUDS}
CLOUDS = [pytest.param(cloud, marks=mark) for cloud, mark in TERRAFORM.items()]
each_cloud = pytest.mark.parametrize("cloud", CLOUDS)
Described = Callable[[str], dict[str, Environment]]
MISTAKES = [mistake for mistakes in read_mistakes().values() for mistake in mistakes]
NODE = {"guest_accelerator": [{"count": 1}], "labels": {"nightshift/pool": "gpu"}, "spot": False, "taint": []}


def of_terraform(cloud: str) -> list[Fault]:
    """A sample of the mistakes that have to be planned: one of each file."""
    return group([mistake for mistake in MISTAKES if mistake.cloud == cloud and mistake.is_planned])[0]


def of_manifests(cloud: str) -> list[Fault]:
    """All the others."""
    return [mistake for mistake in MISTAKES if mistake.cloud == cloud and not mistake.is_planned]


@pytest.fixture(scope="module")
def described(with_terraform: None, tmp_path_factory: pytest.TempPathFactory) -> Described:
    """`described(cloud)` is the customers' environments and a copy of prod with mistakes, read as a user's are."""

    @functools.cache
    def describe_cloud(cloud: str) -> dict[str, Environment]:
        folder = tmp_path_factory.mktemp(cloud)
        copies = {name: (name, customers.copy_of(folder / name, cloud, name)) for name in customers.names(cloud)}
        copies["injected"] = ("prod", inject(of_terraform(cloud), folder / "injected"))
        return {name: environment.read(cloud, own, infra) for name, (own, infra) in copies.items()}

    return describe_cloud


@pytest.mark.slow
@each_cloud
def test_customers_environments_keep_every_policy(cloud: str, described: Described) -> None:
    findings = {name: judge(described(cloud)[name]) for name in customers.names(cloud)}

    assert findings == {name: [] for name in customers.names(cloud)}


@pytest.mark.slow
@each_cloud
def test_a_mistake_in_terraform_is_named(cloud: str, described: Described) -> None:
    findings = judge(described(cloud)["injected"])

    assert [str(mistake) for mistake in of_terraform(cloud) if not mistake.is_named(findings)] == []


@pytest.mark.slow
@each_cloud
def test_a_mistake_in_manifests_values_rules_and_dashboards_is_named(
    cloud: str, described: Described, tmp_path: Path
) -> None:
    unnamed = of_manifests(cloud)
    # a file that one customer has no use for, another one has
    for name in customers.names(cloud):
        groups, unnamed = group(unnamed), []
        for at, faults in enumerate(groups):
            broken = policies.manifests_of(described(cloud)[name], inject(faults, tmp_path / name / str(at)))
            findings = judge(broken)
            unnamed += [mistake for mistake in faults if not mistake.is_named(findings)]

    assert unnamed == []


@pytest.mark.slow
@each_cloud
def test_what_the_apply_decides_is_resolved_from_the_configuration(cloud: str, described: Described) -> None:
    sound = described(cloud)[customers.names(cloud)[0]]
    kind, argument = {
        "aws": ("aws_iam_role_policy", "policy"),
        "gcp": ("google_container_node_pool", "node_config"),
    }[cloud]

    assert all(resource.values.get(argument) for resource in sound.of_type(kind))
    assert sound.outputs and sound.of_kind("PersistentVolume")


def waived(rule: str, until: str) -> Environment:
    """An environment with a Service that is open to the Internet, and a waiver of that resource."""
    service = {"kind": "Service", "metadata": {"name": "one", "namespace": "n"}, "spec": {"type": "NodePort"}}
    waiver = Waiver(
        rule=rule, resource="n/Service/one", reason="reached from the office", until=date.fromisoformat(until)
    )
    opened = service | {"spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    return Environment("aws", "dev", (), (opened,), {}, INFRA, "us-east-1", "", waivers=(waiver,))


OPEN = "nothing_is_open_to_the_internet"
TODAY = date(2026, 11, 29)


def test_a_waiver_allows_a_finding_until_its_day_and_is_shown() -> None:
    allowed, expired = report(waived(OPEN, "2026-11-29"), TODAY), report(waived(OPEN, "2026-11-28"), TODAY)

    assert not [finding for finding in allowed.open if finding.rule == OPEN]
    assert "allowed until 2026-11-29 (reached from the office): nothing_is_open" in "\n".join(allowed.lines())
    assert expired.fails and "allowed until 2026-11-28: fix it" in "\n".join(expired.lines())


def test_a_waiver_of_an_unknown_rule_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="nothing_is_opened"):
        report(waived("nothing_is_opened", "2026-11-29"), TODAY)


def test_a_finding_prints_the_line_that_allows_it_and_advice_alone_fails_nothing() -> None:
    judged = report(waived("spot_has_a_fallback", "2026-11-29"), TODAY)
    advice = dataclasses.replace(judged, open=[finding for finding in judged.open if finding.severity == "advice"])

    assert f"- {{rule: {OPEN}, resource: 'n/Service/one', reason: WHY, until: YYYY-MM-DD}}" in "\n".join(judged.lines())
    assert "no finding of spot_has_a_fallback on n/Service/one; remove the waiver" in "\n".join(judged.lines())
    assert judged.fails and not advice.fails


def test_there_are_a_hundred_mistakes_of_every_kind() -> None:
    assert len(MISTAKES) >= 100
    assert {mistake.kind for mistake in MISTAKES} == {
        "alerts", "dashboards", "fixed", "names", "priorities", "probes", "ranges", "references", "retention",
        "secrets", "units", "volumes",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cloud", "kind", "argument", "value", "says"),
    [
        pytest.param(
            "aws", "aws_eks_node_group", "taint", [], "taint is []; steps only tolerate", marks=TERRAFORM["aws"]
        ),
        pytest.param(
            "aws",
            "aws_eks_node_group",
            "labels",
            {"nightshift/pool": "gpu"},
            "node pools: labels",
            marks=TERRAFORM["aws"],
        ),
        pytest.param(
            "aws",
            "aws_eks_access_entry",
            "kubernetes_groups",
            ["a"],
            "kubernetes_groups is ['a']",
            marks=TERRAFORM["aws"],
        ),
        pytest.param(
            "aws", "aws_kms_key", "deletion_window_in_days", 7, "deletion_window_in_days is 7", marks=TERRAFORM["aws"]
        ),
        pytest.param(
            "aws",
            "aws_launch_template",
            "tag_specifications",
            [],
            "tag_specifications.volume is {}",
            marks=TERRAFORM["aws"],
        ),
        pytest.param(
            "aws", "aws_eks_addon", "configuration_values", None, "extraVolumeTags is {}", marks=TERRAFORM["aws"]
        ),
        pytest.param(
            "aws", "aws_subnet", "cidr_block", "10.0.0.7/19", "10.0.0.7/19 has host bits", marks=TERRAFORM["aws"]
        ),
        pytest.param("aws", "aws_eks_node_group", "version", "1.30", "version is '1.30'", marks=TERRAFORM["aws"]),
        pytest.param(
            "gcp", "google_container_node_pool", "node_config", [NODE], "labels.nightshift/gpus", marks=TERRAFORM["gcp"]
        ),
        pytest.param(
            "gcp",
            "google_compute_firewall",
            "allow",
            [{"protocol": "tcp", "ports": ["443"]}],
            "allow.ports is ['443']",
            marks=TERRAFORM["gcp"],
        ),
        pytest.param("gcp", "google_project_service", "service", "x", "must be enabled for", marks=TERRAFORM["gcp"]),
        pytest.param(
            "gcp",
            "google_project_iam_member",
            "member",
            "group:x@elsewhere.com",
            "groups of fin.example",
            marks=TERRAFORM["gcp"],
        ),
        pytest.param(
            "gcp",
            "google_storage_bucket_iam_member",
            "member",
            "x",
            "no cloud identity is bound to this account",
            marks=TERRAFORM["gcp"],
        ),
        pytest.param(
            "gcp", "google_kms_crypto_key", "rotation_period", "90s", "rotation_period is '90s'", marks=TERRAFORM["gcp"]
        ),
    ],
)
def test_a_policy_says_what_breaks_it(
    cloud: str, kind: str, argument: str, value: object, says: str, described: Described
) -> None:
    sound = described(cloud)[customers.names(cloud)[0]]
    broken = tuple(
        Resource(resource.address, resource.type, resource.values | {argument: value})
        if resource.type == kind
        else resource
        for resource in sound.resources
    )

    assert [finding for finding in judge(dataclasses.replace(sound, resources=broken)) if says in finding]


def test_every_policy_has_its_own_name_a_source_and_a_sentence() -> None:
    assert len({policy.id for policy in POLICIES}) == len(POLICIES) >= 50
    for policy in POLICIES:
        assert policy.source.startswith(("https://", "infra/", "pipelines/")) and policy.rule.__doc__, policy.id
        path = policy.source.split(",")[0].split(" ")[0]
        assert path.startswith("https://") or (INFRA.parent / path).exists(), policy.id


def test_every_limit_is_written_as_what_it_bounds_and_has_its_reason_and_source() -> None:
    for row in table("limits"):
        assert row["why"] and row["source"], row
        for bound in (row[name] for name in ("from", "to") if name in row):
            assert READERS[row["as"]](bound) >= 0
        assert len({"one_of", "not", "matches", "from"} & row.keys()) == 1, row


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (quantities.seconds, "1h30m", 5400),
        (quantities.seconds, "7776000s", 7776000),
        (quantities.duration, "30d", 2592000),
        (quantities.size, "8Gi", 8 * 2**30),
        (quantities.size, "256m", 0.256),
        (quantities.cores, "500m", 0.5),
    ],
)
def test_a_unit_is_read_as_kubernetes_and_go_read_it(read: Callable[[object], float], text: str, value: float) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [(quantities.seconds, "600"), (quantities.seconds, "10d"), (quantities.size, "8GB"), (quantities.size, "8 Gi")],
)
def test_a_number_without_its_unit_is_refused(read: Callable[[object], float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read(text)


def test_the_keys_of_secrets_are_read_from_the_script_that_makes_them() -> None:
    keys = read_keys((INFRA / "cluster" / "secrets.sh").read_text())

    assert keys["kubeflow", "nightshift-serving"] == keys["nightshift", "nightshift-serving"] == {"token"}
    assert keys["nightshift", "postgresql"] == {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"}
    assert keys["airflow", "airflow-login"] == {"passwords.json"}


def test_an_environment_that_is_not_there_ends_with_2_and_says_what_to_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["aws", "nowhere"])

    assert ended.value.code == 2 and "aws-nowhere.yaml does not exist" in capsys.readouterr().err


def test_series_that_queries_may_choose_are_those_of_the_pages() -> None:
    pages = [INFRA.parent / "docs/reference/metrics.md", INFRA.parent / "packages/llm/docs/gateway.md"]
    rows = [row for page in pages for row in re.findall(r"^\| `(nightshift_\w+)` \|(.*)$", page.read_text(), re.M)]

    for metric, columns in rows:
        cells = columns.split("|")[:-2]
        labels = {name for cell in cells for name in re.findall(r"`(\w+)`", cell.partition(":")[0])}
        names = (metric, f"{metric}_bucket")
        known = [
            row["labels"]
            for row in table("monitoring")["series"]
            for name in names
            if re.fullmatch(row["metric"], name)
        ]
        assert known and labels <= known[0].keys(), metric
