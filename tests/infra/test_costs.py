"""What a plan is said to cost."""

import datetime
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from rich.console import Console

from infra import terraform
from infra.costs import core
from infra.costs.__main__ import estimate, main, show, table_of
from nightshift.costs.prices import read_machines
from nightshift.runtime.errors import UnavailableError

Json = dict[str, Any]
CLOUDS = ("aws", "gcp")
SPACES = terraform.INFRA / "cluster" / "namespaces"
FIGURES: Json = json.loads((terraform.INFRA.parent / "docs" / "figures.json").read_text())
LUSTRE = {"per_unit_storage_throughput": 500, "capacity_gib": 9000}
each_environment = pytest.mark.parametrize(
    ("cloud", "environment"),
    [
        pytest.param(cloud, name, marks=pytest.mark.xdist_group(f"terraform-{cloud}"))
        for cloud in CLOUDS
        for name in ("try", "dev", "prod")
    ],
)


def plan(*resources: Json, zones: int = 1) -> Json:
    """A plan of resources in one module, as far as the estimate reads it."""
    standing = [
        {"mode": "managed", "address": f"module.m.{entry['type']}.this", "values": {}} | entry for entry in resources
    ]
    return {
        "variables": {"zones": {"value": [f"zone-{number}" for number in range(zones)]}},
        "planned_values": {"root_module": {"child_modules": [{"resources": standing}]}},
        "resource_changes": [{"type": entry["type"], "change": {"actions": ["create"]}} for entry in resources],
    }


def node_group(kind: str, machine: str, least: int, most: int, capacity: str = "ON_DEMAND") -> Json:
    values = {
        "labels": {"nightshift/pool": kind},
        "instance_types": [machine, "second choice"],
        "capacity_type": capacity,
        "scaling_config": [{"min_size": least, "max_size": most}],
    }
    return {"type": "aws_eks_node_group", "values": values, "address": f"module.{machine}.aws_eks_node_group.this"}


def google_pool(name: str, machine: str, least: int, most: int, **node: Any) -> Json:
    config = {"machine_type": machine, "labels": {"nightshift/pool": name}, "disk_size_gb": 100} | node
    values = {
        "node_config": [config],
        "autoscaling": [{"total_min_node_count": least, "total_max_node_count": most}],
    }
    return {"type": "google_container_node_pool", "values": values, "address": f"module.{machine}.{name}"}


def cost(what: Json, use: core.Use, **usd: float) -> dict[str, core.MonthlyCost]:
    units = {"disk": "GB-month", "data": "GB", "FSx": "GB-month", "bucket": "GB-month", "group": "GB"}
    per = {name: next((unit for part, unit in units.items() if part in name), "hour") for name in usd}
    return core.costs(core.charges(what, use), {name: core.Price(value, per[name]) for name, value in usd.items()})


def test_what_stands_is_charged_for_a_months_730_hours() -> None:
    costs = cost(plan({"type": "aws_eks_cluster"}), core.Use(), aws_eks_cluster=0.1, disk=0.0)

    assert costs["cluster"].usd == pytest.approx(73)


def test_an_interface_endpoint_is_charged_in_each_zone_and_a_gateway_endpoint_is_free() -> None:
    kinds = [{"type": "aws_vpc_endpoint", "values": {"vpc_endpoint_type": kind}} for kind in ("Interface", "Gateway")]

    costs = cost(plan(*kinds, zones=3), core.Use(), aws_vpc_endpoint=0.01)

    assert costs["network"].usd == pytest.approx(730 * 3 * 0.01)


def test_what_is_stored_is_counted_once_however_many_buckets_there_are() -> None:
    buckets = [{"type": "aws_s3_bucket"}] * 3

    assert cost(plan(*buckets), core.Use(stored=300), aws_s3_bucket=0.02)["storage"].usd == pytest.approx(6)


def test_the_price_of_lustre_is_that_of_its_throughput() -> None:
    values = {"deployment_type": "PERSISTENT_2", "per_unit_storage_throughput": 250, "storage_capacity": 1200}
    lustre = plan({"type": "aws_fsx_lustre_file_system", "values": values})

    costs = cost(lustre, core.Use(), **{"FSx PERSISTENT_2 250": 0.2, "FSx PERSISTENT_2 125": 0.1})

    assert costs["Lustre"] == core.MonthlyCost(pytest.approx(240), frozenset())


def test_idle_pays_for_the_nodes_that_always_run_only() -> None:
    nodes = plan(node_group("general", "small", 2, 6), node_group("gpu", "big", 0, 4))

    costs = cost(nodes, core.PROFILES["idle"], **{"small on-demand": 1.0, "big on-demand": 10.0})

    assert costs["general nodes"].usd == pytest.approx(2 * 730)
    assert costs["GPU nodes"] == core.NOTHING


def test_a_night_takes_a_spot_node_where_there_are_any_and_one_more_general_node() -> None:
    nodes = plan(
        node_group("gpu", "big", 0, 1), node_group("gpu", "cheap", 0, 1, "SPOT"), node_group("general", "small", 1, 2)
    )

    costs = cost(
        nodes,
        core.Use(nights=30, hours=2),
        **{"big on-demand": 10.0, "cheap spot": 3.0, "small on-demand": 1.0},
    )

    assert costs["GPU nodes"].usd == pytest.approx(30 * 2 * 3)
    assert costs["general nodes"].usd == pytest.approx(730 + 30 * 2)


def test_of_two_pools_that_are_alike_a_night_takes_a_node_of_one() -> None:
    nodes = plan(*[node_group("gpu", "big", 0, 1)] * 2)

    assert cost(nodes, core.Use(nights=30), **{"big on-demand": 1.0})["GPU nodes"].usd == pytest.approx(30)


def test_a_pool_that_cannot_grow_has_no_node_more_at_night() -> None:
    nodes = plan(node_group("general", "small", 2, 2))

    assert cost(nodes, core.Use(nights=30), **{"small on-demand": 1.0})["general nodes"].usd == pytest.approx(2 * 730)


def test_a_night_is_longer_than_the_trainings_that_were_measured_with_the_start_and_the_end_of_a_node() -> None:
    trainings = [
        row for row in FIGURES["nights"]["rows"] if row["DAG"].endswith("_training") and row["night"] == "second"
    ]

    assert len(trainings) == 3
    assert sum(row["seconds"] for row in trainings) + 2 * 600 <= core.PROFILES["working"].hours * 3600


def test_the_disks_of_nodes_are_those_of_their_launch_template() -> None:
    template = {"block_device_mappings": [{"ebs": [{"volume_size": 100}]}]}
    address = "module.small.aws_launch_template.this"
    nodes = plan(
        node_group("general", "small", 2, 2), {"type": "aws_launch_template", "values": template, "address": address}
    )

    costs = cost(nodes, core.Use(), **{"small on-demand": 0.0, "disk": 0.1})

    assert costs["general nodes"].usd == pytest.approx(2 * 100 * 0.1)


def test_a_pool_of_either_cloud_is_read_with_its_market_disks_and_limits() -> None:
    of_google = {
        "autoscaling": [{"total_min_node_count": 1, "total_max_node_count": 4}],
        "node_config": [
            {
                "machine_type": "g2",
                "spot": True,
                "labels": {"nightshift/pool": "gpu"},
                "disk_size_gb": 100,
                "ephemeral_storage_local_ssd_config": [{"local_ssd_count": 2}],
            }
        ],
    }
    waiting = {"node_config": [{"machine_type": "a3", "flex_start": True}], "autoscaling": None}
    usual = {"node_config": [{"machine_type": "e2", "labels": {"nightshift/pool": "general"}}]}
    block = {"capacity_type": "CAPACITY_BLOCK", "instance_types": None}
    what = plan(
        *({"type": "google_container_node_pool", "values": values} for values in (of_google, waiting, usual)),
        {"type": "aws_eks_node_group", "values": block},
        {"type": "aws_launch_template", "values": {"instance_type": "p5"}, "address": "module.m.aws_launch_template.p"},
        {"type": "aws_eks_node_group", "values": {"instance_types": ["m7"]}, "address": "aws_eks_node_group.other"},
        {"type": "aws_iam_role"},
    )
    assert core.pools(core.resources(what)) == [
        core.Pool(False, "m7 on-demand", 0, 0, False, 0.0),
        core.Pool(False, "p5 capacity-block", 0, 0, False, 0.0),
        core.Pool(True, "g2 spot", 1, 4, True, 100.0, 750.0),
        core.Pool(False, "a3 flex-start", 0, 0, False, 0.0),
        core.Pool(False, "e2 on-demand", 0, 0, False, 0.0),
    ]
    charges = [charge for charge in core.charges(what, core.Use()) if charge.amount]
    assert charges == [
        core.Charge("GPU nodes", "g2 spot", 730, "hour"),
        core.Charge("GPU nodes", "disk", 100, "GB-month"),
        core.Charge("GPU nodes", "local SSD", 750, "GB-month"),
    ]


def test_nodes_with_public_addresses_pay_for_them_as_long_as_they_run() -> None:
    nodes = (node_group("general", "small", 1, 2), node_group("gpu", "cheap", 0, 1, "SPOT"))
    addresses = {
        public: [
            charge.amount
            for charge in core.charges(
                plan(*nodes, {"type": "aws_subnet", "values": {"map_public_ip_on_launch": public}}),
                core.Use(nights=30, hours=2),
            )
            if charge.price == "public IPv4"
        ]
        for public in (True, False)
    }

    assert addresses == {True: [60, 730 + 60], False: [0, 0]}


def test_a_spot_node_that_always_runs_is_charged_as_one() -> None:
    nodes = plan(google_pool("general", "e2", 1, 2, spot=True))

    assert cost(nodes, core.Use(), **{"e2 spot": 0.1, "disk": 0.0})["general nodes"].usd == pytest.approx(73)


def test_an_estimate_is_the_same_in_whichever_order_terraform_lists_the_pools() -> None:
    groups = [node_group("gpu", machine, 0, 1) for machine in ("big", "huge")]
    first, second = (core.charges(plan(*listed), core.Use(nights=30)) for listed in (groups, groups[::-1]))

    assert first == second


def test_without_a_spot_pool_a_night_takes_the_first_that_may_have_a_gpu() -> None:
    nodes = plan(node_group("gpu", "gone", 0, 0), node_group("gpu", "big", 0, 1))
    (charge,) = (charge for charge in core.charges(nodes, core.Use(nights=30, hours=2)) if charge.amount)
    assert (charge.price, charge.amount) == ("big on-demand", 60)


@pytest.mark.parametrize(
    ("kind", "values", "charged"),
    [
        ("aws_kms_key", {}, [("keys", "aws_kms_key", 1, "month")]),
        ("google_kms_crypto_key", {}, [("keys", "google_kms_crypto_key", 1, "month")]),
        (
            "google_filestore_instance",
            {"tier": "BASIC_HDD", "file_shares": [{"capacity_gb": 1024}]},
            [("files", "Filestore BASIC_HDD", 1024, "GB-month")],
        ),
        (
            "google_lustre_instance",
            LUSTRE,
            [("Lustre", "Managed Lustre 500", 9000, "GB-month")],
        ),
        (
            "aws_fsx_lustre_file_system",
            {
                "deployment_type": "PERSISTENT_2",
                "per_unit_storage_throughput": 125,
                "storage_capacity": 1200,
            },
            [
                ("Lustre", "FSx PERSISTENT_2 125", 1200, "GB-month"),
            ],
        ),
    ],
)
def test_keys_and_file_systems_are_charged_by_the_month(kind: str, values: Json, charged: list[Any]) -> None:
    charges = core.charges(plan({"type": kind, "values": values}), core.Use())
    assert charges == [core.Charge(*row) for row in charged]


def test_what_no_rule_covers_and_nobody_names_is_unpriced() -> None:
    kinds = ("aws_vpc", "aws_iam_role", "aws_eip", "aws_s3_bucket", core.EKS_POOL, core.GKE_POOL, "aws_budget")
    assert core.find_unpriced(plan(*({"type": kind} for kind in kinds)), {"aws_vpc": "free"}) == [
        "aws_budget",
        "aws_iam_role",
    ]


def test_what_is_read_only_does_not_stand_and_an_empty_plan_leaves_nothing() -> None:
    read = {"mode": "data", "type": "aws_eip", "address": "data.aws_eip.this"}
    assert core.resources({"planned_values": {"root_module": {"resources": [read]}}}) == []
    assert core.resources({"planned_values": {}}) == []
    assert core.changes({}) == {}


def test_a_clouds_machines_are_priced_by_the_hour_beside_its_other_prices() -> None:
    own = {name: usd for machine in read_machines().values() if machine.cloud == "aws" for name, usd in machine.markets}
    prices = core.with_machines({"aws_eip": {"usd": 1, "per": "hour"}}, "aws")
    assert {name: price["usd"] for name, price in prices.items()} == own | {"aws_eip": 1}
    assert {price["per"] for price in prices.values()} == {"hour"}
    assert all(prices[name]["date"] and prices[name]["source"] for name in own)


def test_the_dearest_group_comes_first() -> None:
    charged = [core.Charge(name, name, amount, "hour") for name, amount in (("a", 1), ("b", 3), ("c", 2), ("a", 0.5))]
    by_group = core.costs(charged, {name: core.Price(1.0, "hour") for name in "abc"})
    assert [(name, group_cost.usd) for name, group_cost in by_group.items()] == [("b", 3), ("c", 2), ("a", 1.5)]


def test_a_price_nobody_knows_is_named_and_the_rest_is_what_it_costs_at_least() -> None:
    network = plan({"type": "aws_nat_gateway"}, {"type": "aws_eip"})

    costs = core.costs(core.charges(network, core.Use(moved=10)), {"aws_nat_gateway": core.Price(0.05, "hour")})

    assert costs["network"] == core.MonthlyCost(pytest.approx(36.5), frozenset({"public IPv4", "aws_nat_gateway data"}))


def test_a_price_by_another_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="aws_eks_cluster: priced by the month, charged by the hour"):
        core.costs(
            core.charges(plan({"type": "aws_eks_cluster"}), core.Use()), {"aws_eks_cluster": core.Price(73, "month")}
        )


def test_changes_are_counted_by_type_and_a_replacement_is_one_of_each() -> None:
    changed = [
        {"type": "a", "change": {"actions": actions}}
        for actions in (["create"], ["no-op"], ["delete", "create"], ["update"])
    ]

    assert core.changes({"resource_changes": changed}) == {"a": {"create": 2, "delete": 1, "update": 1}}


@pytest.mark.parametrize(("cloud", "environment"), [("aws", "prod"), ("gcp", "dev")])
def test_the_plan_that_is_shown_is_the_one_that_is_asked_for(
    cloud: str, environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(sys, "argv", ["infra.costs", cloud, environment])
    monkeypatch.setattr("infra.cloud.plans.plan", lambda *arguments: arguments)
    monkeypatch.setattr("infra.costs.__main__.show", lambda *arguments: shown.append(arguments[:2]))

    main()

    assert shown == [((cloud, environment), table_of(cloud))]


@pytest.mark.parametrize(
    ("environment", "raised", "code", "says"),
    [("prd", None, 2, "did you mean 'aws-prod'"), ("dev", UnavailableError("terraform failed"), 1, "terraform failed")],
)
def test_what_keeps_a_plan_from_being_shown_is_said_and_is_no_success(
    environment: str,
    raised: Exception | None,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def plan(*_: object) -> Json:
        raise raised or AssertionError("nothing is planned")

    monkeypatch.setattr(sys, "argv", ["infra.costs", "aws", environment])
    monkeypatch.setattr("infra.terraform.plan", plan)

    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == code and says in capsys.readouterr().err


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_price_has_a_unit_a_source_and_a_day(cloud: str) -> None:
    for name, fields in table_of(cloud)["prices"].items():
        price = core.Price(**fields)
        assert price.per in {"hour", "month", "GB-month", "GB", "image", "million"}, name
        assert price.usd > 0 and price.source and datetime.date.fromisoformat(price.date), name


@each_environment
def test_each_resource_of_the_plans_is_priced_or_said_to_be_free(
    cloud: str, environment: str, planned: Callable[[str, str], Json]
) -> None:
    shown, table = planned(cloud, environment), table_of(cloud)

    assert core.find_unpriced(shown, table["free"]) == []
    assert all(reason for reason in table["free"].values())
    wanted = {charge.price for use in core.PROFILES.values() for charge in core.charges(shown, use) if charge.amount}
    assert wanted <= set(table["prices"])


@each_environment
def test_what_an_environment_costs_is_what_the_docs_say_and_stays_inside_its_budget(
    cloud: str, environment: str, planned: Callable[[str, str], Json]
) -> None:
    rows = {row["environment"]: row for row in FIGURES["infra-costs"]["rows"]}
    budget = planned(cloud, environment)["variables"]["budget"]["value"]

    row = estimate(planned(cloud, environment), cloud)

    assert rows[f"{cloud}, {environment}"] == {"environment": f"{cloud}, {environment}", **row}
    assert row["working, USD"] < budget.get("monthly_usd", budget.get("amount"))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_smallest_thing_that_works_costs_less_than_150_dollars_idle(
    cloud: str, planned: Callable[[str, str], Json]
) -> None:
    assert estimate(planned(cloud, "try"), cloud)["idle, USD"] < 150


def test_the_disks_that_are_claimed_are_those_of_manifests_and_charts() -> None:
    (database,) = (
        claim["spec"]["resources"]["requests"]["storage"]
        for manifest in yaml.safe_load_all((SPACES / "postgresql" / "postgresql.yaml").read_text())
        for claim in manifest["spec"].get("volumeClaimTemplates", [])
    )
    spaces = [path for path in SPACES.glob("*/kustomization.yaml") if "../postgresql" in path.read_text()]
    prometheus = yaml.safe_load((SPACES.parent / "values" / "kube-prometheus-stack.yaml").read_text())["prometheus"]
    storage = prometheus["prometheusSpec"]["storageSpec"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]

    assert [f"{core.CLAIMS[name]:.0f}Gi" for name in core.SMALLEST] == [database] * len(spaces)
    assert storage["storage"] == f"{core.CLAIMS['Prometheus']:.0f}Gi"


def test_a_cluster_without_a_shared_file_system_claims_disks_for_databases_alone() -> None:
    cluster, files = {"type": "google_container_cluster"}, {"type": "google_lustre_instance", "values": LUSTRE}
    claimed = [
        sum(charge.amount for charge in core.charges(plan(*what), core.Use()) if charge.group == "claimed disks")
        for what in ([cluster], [cluster, files], [files])
    ]

    assert claimed == [40, 130, 0]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_tables_say_what_is_not_known_and_how_old_the_prices_are(
    cloud: str, planned: Callable[[str, str], Json]
) -> None:
    console = Console(width=200, record=True, file=io.StringIO())

    show(planned(cloud, "prod"), table_of(cloud), console)

    printed = console.export_text()
    for words in ("idle", "working", "refresh infra/costs/prices.yaml"):
        assert words in printed
    assert "unknown" not in printed and "No price known for" not in printed


def test_a_machine_without_a_price_is_named_and_the_total_is_what_it_costs_at_least() -> None:
    console = Console(width=200, record=True, file=io.StringIO())

    show(plan({"type": "aws_kms_key"}, node_group("gpu", "z9", 1, 1)), table_of("aws"), console)

    printed = console.export_text()
    assert "unknown, at least 1" in printed and "No price known for z9 on-demand" in printed
