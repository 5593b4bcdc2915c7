"""Commands and figures in the documentation, held against what `infra/` makes."""

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.terraform import INFRA
from nightshift_testkit.metrics import rules
from pipelines.environments import GPU, SITES, Role
from tests.infra.checks import CLOUDS
from tests.infra.edges import here
from tests.infra.edges.model import CHARTS, Json
from tests.infra.test_cluster import named, of_kind
from tests.test_docs import PAGES

# options that are followed by their value
VALUED = {"-n", "-o", "--namespace", "--selector", "--field-selector", "--output", "--label-columns", "-l"}
# labels of nodes, as a selector names them
OF_NODES = {
    f"{label}={value}"
    for site in SITES.values()
    for placement in site.placements.values()
    for label, value in placement.nodes.items()
}
RUNBOOKS = INFRA.parent / "docs" / "runbooks"
# what a choice of the answers brings, and the pods that JobSet makes of a TrainJob
CHOSEN = [("clusterqueue", "", "nightshift"), ("trainjob", "kubeflow", "collectives")]
OF_TRAINJOBS = [f"jobset.sigs.k8s.io/jobset-name={name}" for kind, _, name in CHOSEN if kind == "trainjob"]
WORDS = {"3": "three", "5": "five", "6": "six"}
SHARES = {"0.01": "one request in a hundred", "0.02": "idle", "0.15": "15 %", "0.2": "20 %"}
WORKLOADS = ("DaemonSet", "Deployment", "Job", "StatefulSet")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(INFRA.parent)))


@dataclass(frozen=True)
class Command:
    """What is asked of kubectl.

    Attributes:
        words: without options, the verb first.
        namespace: that is named, or nothing.
        selector: that is named, or nothing.
    """

    words: tuple[str, ...]
    namespace: str
    selector: str

    def kinds(self) -> list[str]:
        """Return the kinds that are named, in the singular."""
        if self.words[0] not in ("annotate", "delete", "describe", "get", "scale"):
            return []
        return [kind.partition(".")[0].rstrip("s") for kind in self.words[1].partition("/")[0].split(",")]

    def objects(self) -> Iterator[tuple[str, str]]:
        """Yield kind and name of what is named."""
        kinds, names = self.kinds(), self.words[2:3] if self.kinds() else ()
        yield from ((kind, name) for kind in kinds for name in names if "=" not in name)
        yield from ((word.partition("/")[0].rstrip("s"), word.partition("/")[2]) for word in self.words if "/" in word)
        if self.words[0] in ("exec", "logs") and len(self.words) > 1 and "/" not in self.words[1]:
            yield "statefulset", self.words[1].rpartition("-")[0]


def commands(text: str) -> list[Command]:
    """Return what is asked of kubectl in a page: of what is there, and nothing of files."""
    lines = re.findall(r"\bkubectl ([a-z]+ [^`\n#|<&]*)", text.replace("\\\n", " "))
    parsed = [_command(line.partition(" -- ")[0].partition("--overrides")[0]) for line in lines]
    return [command for command in parsed if command.words[0] not in ("apply", "config", "kustomize", "run")]


def _command(line: str) -> Command:
    words, positional, options = shlex.split(line), list[str](), dict[str, str]()
    while words:
        word = words.pop(0)
        if word in VALUED:
            options[word] = words.pop(0)
        elif word.startswith("-"):
            options.update([word.split("=", 1)] if "=" in word else [])
        elif not re.fullmatch(r"\d+(:\d+)?|\S+=\S+", word):
            positional.append(word)
    namespace = options.get("--namespace") or options.get("-n", "")
    return Command(tuple(positional), namespace, options.get("--selector") or options.get("-l", ""))


def fits(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether a selector of kubectl's chooses something with these labels."""
    for term in selector.split(","):
        ((key, operator, value),) = re.findall(r"^([^!=]+)(!?=)?(.*)$", term)
        if operator == "!=" and labels.get(key) == value:
            return False
        if operator != "!=" and (key not in labels or (operator and labels[key] != value)):
            return False
    return True


def chosen(command: Command, value: Json) -> bool:
    """Whether an object is of the namespace and kind that a command chooses among, and has such labels."""
    pods = command.words[0] == "logs" or "pod" in command.kinds()
    kinds = {kind.lower() for kind in WORKLOADS} if pods else {*command.kinds()}
    labels = value.get("podLabels" if pods else "labels") or {}
    there = value["kind"].lower() in kinds and value.get("namespace", "") == command.namespace
    return there and fits(command.selector, labels)


@pytest.fixture(scope="module")
def standing() -> list[Json]:
    """The objects of both clouds' clusters, and the pods that are started in them."""
    if not CHARTS.exists() or shutil.which("kubectl") is None:
        pytest.skip("what stands in a cluster is not known without kubectl and ../shared/charts")
    clusters = [here.standing(cloud) for cloud in here.CLOUDS]
    pods = [pod for cluster in clusters for pod in cluster.pods]
    started = [
        {"kind": "Job", "name": pod.name, "namespace": pod.namespace, "podLabels": dict(pod.labels)} for pod in pods
    ]
    return [*started, *(fact for cluster in clusters for fact in cluster.objects)]


@each_page
def test_what_a_command_for_the_cluster_names_is_there(page: Path, standing: list[Json]) -> None:
    there = {(fact["kind"].lower(), fact.get("namespace", ""), fact["name"]) for fact in standing}
    spaces = {"", "kube-system", *(name for kind, _, name in there if kind == "namespace")}
    for command in commands(page.read_text()):
        assert command.namespace in spaces, command
        for kind, name in command.objects():
            assert (kind, command.namespace, name) in {*there, *CHOSEN}, command
        if command.selector and command.kinds() == ["node"]:
            assert command.selector in OF_NODES, command
        elif command.selector not in ("", *OF_TRAINJOBS):
            assert any(chosen(command, fact) for fact in standing), command


@each_page
def test_an_output_or_a_variable_of_terraform_that_is_named_is_one(page: Path) -> None:
    clouds = [cloud for cloud in CLOUDS if page.is_relative_to(INFRA / cloud)] or list(CLOUDS)
    text = page.read_text()
    for file, kind, pattern in (
        ("outputs.tf", "output", r"terraform output (\w+)"),
        ("variables.tf", "variable", r"-var '?(\w+)="),
    ):
        known = [re.findall(rf'^{kind} "(\w+)"', (INFRA / cloud / file).read_text(), re.MULTILINE) for cloud in clouds]
        assert set(re.findall(pattern, text)) <= {name for names in known for name in names}


def test_what_is_asked_of_kubectl_is_found_in_a_page() -> None:
    inline, line = (
        "`kubectl logs -n a deployment/b`",
        "kubectl delete jobs,pods c --namespace a --selector d=e,f!=g  # h",
    )
    logs, delete = commands(f"Look: {inline}, or\n\n    {line}\n")

    assert (logs, [*logs.objects()]) == (Command(("logs", "deployment/b"), "a", ""), [("deployment", "b")])
    assert (delete.selector, [*delete.objects()]) == ("d=e,f!=g", [("job", "c"), ("pod", "c")])
    assert fits("d=e,f!=g", {"d": "e"}) and not fits("d=e,f!=g", {"d": "e", "f": "g"}) and not fits("d", {})


def test_the_quota_of_gpus_is_the_one_that_the_runbook_names() -> None:
    (gpus,) = re.findall(r"may request (\d+) GPUs", (RUNBOOKS / "gpu-quota.md").read_text())

    assert named(of_kind("kubeflow", "ResourceQuota"), "runs")["spec"]["hard"][f"requests.{GPU}"] == gpus


def test_every_file_that_names_an_image_of_ours_is_named_where_it_is_said_how_to_upgrade_them() -> None:
    files = [path for path in INFRA.rglob("*.yaml") if "registry.example.com/" in path.read_text()]
    text = (RUNBOOKS / "upgrade.md").read_text()

    assert files
    assert [path for path in files if f"`{path.relative_to(INFRA.parent)}`" not in text] == []


def limit(expression: str) -> str:
    """The limit of an alert's expression as a page says it; empty where it is 0 or 1, which is no limit."""
    number = re.search(r"[<>] ([\d.]+)( \* 3600)?\s*(?:$|and)", expression)
    if number is None or number[1] == "0":
        return ""
    if number[2] or float(number[1]) > 1:
        return WORDS.get(number[1], number[1]) + " hours" * bool(number[2])
    return f"{number[1]} s" if "_seconds" in expression else SHARES.get(number[1], f"{float(number[1]):.0%}")


def test_the_page_of_alerts_names_the_limit_of_each() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", (RUNBOOKS / "alerts.md").read_text(), re.M | re.S))
    limits = {rule["alert"]: limit(rule["expr"]) for rule in rules()}

    assert {name for name, limit in limits.items() if limit} >= {"NightshiftRunMissing", "NightshiftEndpointSlow"}
    assert [name for name, limit in limits.items() if not re.search(rf"{re.escape(limit)}(?!\w)", sections[name])] == []


def test_the_page_of_spot_says_how_often_a_step_is_tried_again() -> None:
    page = " ".join((RUNBOOKS / "spot-drought.md").read_text().split())
    for site in (site for site in SITES.values() if site.placements[Role.GPU].gpus):
        retry = site.placements[Role.GPU].retry
        assert f"is retried {WORDS[str(retry.count)]} times, with delays that start at a minute and double" in page
        assert (retry.seconds, retry.factor) == (60.0, 2.0)
