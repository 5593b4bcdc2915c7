"""The golden files: which there are, and what each should hold."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.terraform import INFRA
from tests.infra.checks import EXAMPLES
from tests.infra.golden import cluster, terraform
from tests.infra.golden.facts import Fact, differences, renamed, text

FOLDER = Path(__file__).parent
WHOLE = "prod"  # the pages of other environments hold what differs from its
# the examples, and one that has what neither has
ENVIRONMENTS = (*EXAMPLES, "other")


def of_cluster(infra: Path = INFRA) -> dict[str, Callable[[], str]]:
    """Return the pages that need no Terraform, by name, each made when it is called."""
    folders = [path for path in cluster.kustomizations(infra) if cluster.environment(path) in ("", *EXAMPLES)]
    rendered = {name(folder, infra): functools.partial(_kustomization, folder) for folder in folders}
    return rendered | {
        "charts": lambda: text([*cluster.charts(infra)]),
        "environments": lambda: text([*cluster.environments()]),
        "prices": lambda: text([*cluster.prices(infra)]),
    }


def name(folder: Path, infra: Path = INFRA) -> str:
    """Return the name of a kustomization's page."""
    return "-".join(folder.relative_to(infra).parts)


def _kustomization(folder: Path) -> str:
    environment = cluster.environment(folder)
    if environment in ("", WHOLE):
        return text(cluster.rendered(folder))
    whole = cluster.rendered(folder.with_name(folder.name.removesuffix(environment) + WHOLE))
    return _differing(cluster.rendered(folder), environment, whole)


def of_cloud(cloud: str, infra: Path = INFRA) -> dict[str, str]:
    """Return the pages of a cloud's environments, by name.

    Raises:
        UnavailableError: when Terraform refuses one, a second apply would change something, or a destroy leaves some.
    """
    copies = {environment: terraform.Copy(infra / cloud, environment) for environment in ENVIRONMENTS}
    # each by itself: an apply writes the whole state after every resource
    observed = {name: terraform.observe(cloud, {name: copy}, terraform.AND_DESTROY) for name, copy in copies.items()}
    prices = infra / cluster.PRICES
    facts = {
        name: [*terraform.facts(observed[name], name, copy), *terraform.spent(cloud, observed[name], name, prices)]
        for name, copy in copies.items()
    }
    whole = facts.pop(WHOLE)
    differing = {f"{cloud}-{name}": _differing(own, name, whole) for name, own in facts.items()}
    return {f"{cloud}-{WHOLE}": text(whole)} | differing


def _differing(facts: Sequence[Fact], environment: str, whole: Sequence[Fact]) -> str:
    differing = differences(renamed(facts, environment), renamed(whole, WHOLE))
    return f"{environment} is {WHOLE} but for its name{', and:' if differing else ''}\n{text(differing)}"


def golden(name: str) -> str:
    """Return what is in a golden file."""
    path = FOLDER / f"{name}.txt"
    return path.read_text() if path.exists() else ""


def write(pages: Mapping[str, str]) -> list[str]:
    """Write golden files, and return the names of those that were not so before."""
    changed = [name for name, page in pages.items() if golden(name) != page]
    for name in changed:
        (FOLDER / f"{name}.txt").write_text(pages[name])
    return changed
