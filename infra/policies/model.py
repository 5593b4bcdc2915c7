"""The input of the rules, an environment, and their output, problems."""

import difflib
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from infra.cloud.answers import Waiver
from nightshift.runtime import strict_yaml

Json = dict[str, Any]
_TABLES = Path(__file__).with_name("tables")
# attributes by which other resources refer to a resource
IDENTITIES = ("arn", "id", "email", "member", "key_id", "url", "repository_url")


@dataclass(frozen=True)
class Resource:
    """A managed resource of a plan or a state, with its known values."""

    address: str
    type: str
    values: Json = field(hash=False)

    def block(self, *path: str) -> Json:
        """Return a block by its path, the first where there are several; empty where there is none."""
        value: Any = self.values
        for name in path:
            value = (value or {}).get(name)
            value = value[0] if isinstance(value, list) and value else value
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Environment:
    """One environment, as Terraform, kustomize and the charts' values describe it.

    Attributes:
        cloud: aws or gcp.
        name: such as dev.
        resources: of Terraform.
        objects: of Kubernetes, rendered.
        values: of the charts, by name, without what the command line adds.
        infra: the folder that it was read from.
        region: of the cluster.
        account: on AWS its number; empty where it is not known.
        people: the variable `people` of AWS: ARNs of roles by operators and readers.
        outputs: of Terraform, as `terraform output -json` prints them; empty where nothing was applied.
        provisioning: what creates GPU nodes, as in the answers.
        waivers: the findings that the answers allow.
        protected: whether it holds data of persons.
    """

    cloud: str
    name: str
    resources: tuple[Resource, ...] = field(hash=False)
    objects: tuple[Json, ...] = field(hash=False)
    values: Mapping[str, Json] = field(hash=False)
    infra: Path
    region: str
    account: str
    people: Mapping[str, list[str]] = field(default_factory=dict, hash=False)
    outputs: Json = field(default_factory=dict, hash=False)
    provisioning: str = "autoscaler"
    waivers: tuple[Waiver, ...] = ()
    protected: bool = False

    def of_type(self, *types: str) -> list[Resource]:
        """Return the resources of the types."""
        return [resource for resource in self.resources if resource.type in types]

    def of_kind(self, *kinds: str) -> list[Json]:
        """Return the objects of the kinds."""
        return [value for value in self.objects if value["kind"] in kinds]

    @functools.cached_property
    def values_files(self) -> list[tuple[str, Json]]:
        """The charts' values with the files that hold them, as findings name these."""
        return [(f"infra/cluster/values/{name}.yaml", values) for name, values in self.values.items()]

    @functools.cached_property
    def owners(self) -> Mapping[str, Resource]:
        """The resource of each id, ARN or email by which others refer to it."""
        return {
            value: resource
            for resource in self.resources
            for name in IDENTITIES
            # the member of a grant is the account of another resource
            if isinstance(value := resource.values.get(name), str) and not resource.type.endswith("_iam_member")
        }

    @functools.cached_property
    def facts(self) -> Mapping[str, str]:
        """The values of placeholders in tables: {cluster}, {region}, {account}, {project}."""
        clusters = self.of_type("aws_eks_cluster", "google_container_cluster")
        values = clusters[0].values if clusters else {}
        grants = self.of_type("google_project_iam_member")
        return {
            "cluster": str(values.get("name", "")),
            "region": self.region,
            "account": self.account,
            "project": str(grants[0].values.get("project", "")) if grants else "",
        }


class Severity(StrEnum):
    """What a violation does: `cloud-up` stops for the first two."""

    BREAKS = "breaks"
    EXPOSES = "exposes"
    ADVICE = "advice"


@dataclass(frozen=True)
class Problem:
    """A violation of a rule, printed as "<where>: <field> is <value>; <allowed>".

    Attributes:
        where: the resource, object or file.
        field: path within it.
        value: as it is.
        allowed: the rest of the sentence: what the value must be, or why it is wrong.
        rule: the row of a table that it violates; empty where the rule has no rows.
        severity: that row's; None for the rule's own.
    """

    where: str
    field: str
    value: object
    allowed: str
    rule: str = ""
    severity: Severity | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.field} is {self.value!r}; {self.allowed}"


Rule = Callable[[Environment], Iterator[Problem]]


@dataclass(frozen=True)
class Policy:
    """A rule with the page or file that it is based on."""

    rule: Rule
    source: str
    severity: Severity

    @property
    def id(self) -> str:
        """The name in findings."""
        return self.rule.__name__


POLICIES: list[Policy] = []


def policy(source: str, severity: Severity = Severity.BREAKS) -> Callable[[Rule], Rule]:
    """Register a rule.

    Args:
        source: a page of the vendor, or the file of this project that decides it.
        severity: what a violation does.
    """

    def register(rule: Rule) -> Rule:
        POLICIES.append(Policy(rule, source, severity))
        return rule

    return register


@functools.cache
def table(name: str) -> Any:
    """Return a table of `tables/` by its name."""
    return strict_yaml.load_document((_TABLES / f"{name}.yaml").read_text())


def label(value: Json) -> str:
    """Return the name of a Kubernetes object in findings: <namespace>/<kind>/<name>."""
    meta = value["metadata"]
    return "/".join(filter(None, (meta.get("namespace"), value["kind"], meta["name"])))


def judge_unknown(name: str, known: Iterable[str]) -> tuple[str, Severity]:
    """Return the end of a message on a name that a table lacks, and its severity: it breaks where it is misspelled."""
    for meant in difflib.get_close_matches(name, list(known), n=1, cutoff=0.9):
        return f"did you mean {meant}?", Severity.BREAKS
    return "it is not known here: see that it exists", Severity.ADVICE


def one_of(names: Iterable[object]) -> str:
    """Return the end of a message that lists the expected values."""
    listed = sorted(map(str, names))
    return f"expected {'one of ' if len(listed) > 1 else ''}{', '.join(listed)}" if listed else "none is known"


def blocks(value: Any, *names: str, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Json]]:
    """Yield every mapping within a value, or those under keys of these names, with the path that leads to it."""
    if isinstance(value, dict):
        if not names or (path and path[-1] in names):
            yield ".".join(path), value
        for key, nested in value.items():
            yield from blocks(nested, *names, path=(*path, str(key)))
    elif isinstance(value, list):
        for nested in value:
            yield from blocks(nested, *names, path=path)


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every text, number and bool within a value, with the keys that lead to it; indices of lists are left out.

    A text that holds a JSON object, as arguments of Terraform do, is read as that object.
    """
    if isinstance(value, str) and value.startswith("{") and value.endswith("}") and not value.startswith("{{"):
        yield from leaves(json.loads(value), path)
    elif isinstance(value, dict):
        for key, nested in value.items():
            yield from leaves(nested, (*path, str(key)))
    elif isinstance(value, list):
        for nested in value:
            yield from leaves(nested, path)
    elif value is not None:
        yield path, value
