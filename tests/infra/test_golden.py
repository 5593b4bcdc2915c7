"""What is planned, rendered and installed is what a person has read."""

import difflib
import functools
import shutil
from collections.abc import Callable

import pytest
import yaml

from infra import terraform
from tests.infra import checks, released
from tests.infra.golden import pages
from tests.infra.golden.facts import Fact, differences, renamed, text

CLUSTER = sorted(pages.of_cluster())
CLOUDS = [
    pytest.param(cloud, environment, marks=pytest.mark.xdist_group(f"terraform-{cloud}"))
    for cloud in checks.CLOUDS
    for environment in pages.ENVIRONMENTS
]


def difference(name: str, page: str) -> str:
    """What a page says otherwise than its golden file."""
    before, after = (text.splitlines() for text in (pages.golden(name), page))
    return "\n".join(difflib.unified_diff(before, after, f"tests/infra/golden/{name}.txt", "now", lineterm="", n=2))


def assert_golden(name: str, page: str) -> None:
    changes = difference(name, page)
    assert not changes, f"{changes}\n\nIf that is what you want: make infra-golden, and read what `git diff` shows."


@pytest.mark.parametrize("name", CLUSTER)
def test_what_a_cluster_is_given_is_what_somebody_has_read(name: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH: nothing was rendered")
    assert_golden(name, pages.of_cluster()[name]())


@pytest.mark.parametrize(("cloud", "environment"), CLOUDS)
def test_what_is_planned_is_what_somebody_has_read_and_is_all_there_is_to_do(
    cloud: str, environment: str, observed: Callable
) -> None:
    assert_golden(f"{cloud}-{environment}", observed(cloud)[f"{cloud}-{environment}"])


@pytest.mark.parametrize("cloud", checks.CLOUDS)
def test_an_upgrade_from_the_last_release_destroys_nothing_that_holds_data(cloud: str) -> None:
    addresses = released.read()[cloud]
    destroyed = {released.follow(address, cloud) for address in addresses} - released.list_planned(cloud)

    assert destroyed == set() and len(addresses) > 8, "write a moved block beside the resource"


def test_no_golden_file_is_left_of_what_is_gone() -> None:
    planned = {f"{cloud}-{environment}" for cloud in checks.CLOUDS for environment in pages.ENVIRONMENTS}

    assert {path.stem for path in pages.FOLDER.glob("*.txt")} == {*CLUSTER, *planned}


def test_every_manifest_beside_a_kustomization_is_part_of_it() -> None:
    for path in terraform.INFRA.rglob("kustomization.yaml"):
        content = yaml.safe_load(path.read_text())
        patches = (patch["path"] for patch in content.get("patches", []) if "path" in patch)
        listed = {path.name, *content.get("resources", []), *patches}
        assert {manifest.name for manifest in path.parent.glob("*.y*ml")} - listed == set(), path


def test_what_is_alike_for_several_keys_is_written_once() -> None:
    facts = [Fact("subnet[*]", key, {"zone": key, "range": f"10.0.{key}.0", "public": False}) for key in ("1", "2")]

    assert text(facts) == "\nsubnet[*] (1, 2)\n  public: false\n  range: 10.0.{key}.0\n  zone: {key}\n"


def test_what_differs_is_written_by_key_and_so_is_what_one_lacks() -> None:
    facts = [Fact("pool[*]", "a", {"max": 1}), Fact("pool[*]", "b", {"max": 2, "spot": True})]

    assert text(facts) == "\npool[*] (a, b)\n  max by key: {a: 1, b: 2}\n  spot by key: {b: true}\n"


def test_documents_in_texts_are_opened() -> None:
    policy = '{"Statement":[{"Action":"s3:GetObject","Effect":"Allow"}]}'

    assert text([Fact("policy", "", {"policy": policy})]) == (
        "\npolicy\n  policy: {Statement: [{Action: s3:GetObject, Effect: Allow}]}\n"
    )


def test_texts_and_numbers_are_told_apart() -> None:
    assert text([Fact("x", "", {"text": "1", "number": 1, "word": "true", "bool": True})]) == (
        '\nx\n  bool: true\n  number: 1\n  text: "1"\n  word: "true"\n'
    )


def test_an_environment_is_written_as_what_it_has_otherwise_than_another() -> None:
    prod = [Fact("pool", "a", {"max": 8, "disk": {"size": 50, "fast": True}, "spot": True}), Fact("nat", "", {"id": 1})]
    dev = [Fact("pool", "a", {"max": 2, "disk": {"size": 50, "fast": False}}), Fact("key", "", {"id": 2})]

    assert text(differences(dev, prod)) == (
        "\nkey\n  id: 2\n\nnat\n  is: <absent>\n\npool (a)\n  disk: {fast: false}\n  max: 2\n  spot: <absent>\n"
    )


def test_an_environments_name_is_no_difference_and_anothers_in_its_place_is_one() -> None:
    def named(environment: str, role: str) -> list[Fact]:
        return renamed([Fact("node", "", {"name": f"x-{environment}", "role": f"x-{role}-nodes"})], environment)

    assert differences(named("dev", "dev"), named("prod", "prod")) == []
    assert differences(named("dev", "prod"), named("prod", "prod")) == [Fact("node", "", {"role": "x-prod-nodes"})]
    assert named("try", "try(var") == [Fact("node", "", {"name": "x-{environment}", "role": "x-try(var-nodes"})]


@pytest.fixture(scope="session")
def observed(with_terraform: None) -> Callable[[str], dict[str, str]]:
    """`observed(cloud)` is the pages of its environments, from one run."""
    if not terraform.OFFLINE.exists():
        pytest.skip("../shared/terraform is missing: what a cloud would answer is not made up")
    return functools.cache(pages.of_cloud)
