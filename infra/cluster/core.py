"""The commands that install what `charts.yaml` names, for a shell."""

import shlex
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from nightshift.runtime.errors import UserError

Chart = Mapping[str, Any]
# a shell gives the commands one after the other and ends at the first that fails
STOPPED = (
    "trap 'echo \"cloud: the command above failed, and nothing after it was done; fix it, then run the same command"
    " again\" >&2' ERR"
)
OWNER = "--namespace kubeflow job/nightshift-lustre-owner"
APPLY = 'kubectl apply -k "$OVERLAYS"'
# a Job never changes: a new one hands the file system's root to the steps, who can write from then on
FOR_RUNS = [
    f"kubectl delete --ignore-not-found {OWNER}",
    APPLY,
    f"kubectl wait --for=condition=complete --timeout=10m {OWNER}",
]
ESTABLISHED = "kubectl wait --for=condition=established customresourcedefinitions --all --timeout=2m"


def install(
    charts: Sequence[Chart],
    cloud: str,
    cluster: str,
    choices: AbstractSet[str] = frozenset(),
    smallest: bool = False,
) -> list[str]:
    """Return the commands that bring a cluster to what is described here; giving them again changes nothing.

    They name what is an environment's own as variables of the shell, which `infra/cloud` sets.

    Args:
        charts: the rows of `charts.yaml`, in order.
        cloud: aws or gcp.
        cluster: name of the cluster, which ends with the environment's.
        choices: what is installed beside what every cluster has, see docs/guides/gpus-on-clusters.md.
        smallest: a cluster without a shared file system, for one day's runs on Airflow.

    Raises:
        UserError: when a version is not filled in.
    """
    namespaces = 'kubectl apply --server-side --force-conflicts -k "$OVERLAYS/namespaces"'
    disks = ["kubectl apply -k infra/cluster/storage"] if cloud == "aws" else []
    is_wanted = [chart.get("choice") in {None, *choices} and chart.get("smallest", not smallest) for chart in charts]
    wanted = [chart for chart, is_on in zip(charts, is_wanted, strict=True) if is_on and cloud in chart["clouds"]]
    names = {"cloud": cloud, "cluster": cluster, "site": f"{cloud}-try" if smallest else cloud}
    commands = [command for chart in wanted for command in _install(chart, names, choices)]
    secrets = 'infra/cluster/secrets.sh "$ARTIFACTS"'
    # Kubeflow brings its own namespace object: ours again, for the labels it lacks
    return [namespaces, secrets, *disks, *commands, namespaces, *([APPLY] if smallest else FOR_RUNS)]


def uninstall(charts: Sequence[Chart], cloud: str) -> list[str]:
    """Return the commands that remove what holds machines of the cloud: ours, Karpenter's nodes, charts, claims.

    What controllers look after goes while they are there, and then the charts, in reverse order. Volumes go with their
    claims, so what is not copied elsewhere is lost.
    """
    wanted = [chart for chart in reversed(charts) if cloud in chart["clouds"] and "chart" in chart]
    volumes = [
        "kubectl delete persistentvolumeclaims --all --all-namespaces --timeout=10m",
        # this one is kept when its claim goes, and the others have to be gone before what deletes disks is
        "kubectl delete persistentvolume nightshift-lustre --ignore-not-found",
        "kubectl wait --for=delete persistentvolumes --all --timeout=10m",
    ]
    balancers = (
        "kubectl get services --all-namespaces --no-headers --field-selector spec.type=LoadBalancer "
        "--output custom-columns=:metadata.namespace,:metadata.name "
        "| while read -r space name; do kubectl delete service --namespace $space $name; done"
    )
    # where Karpenter was never installed, nothing is named to xargs
    nodes = (
        "kubectl api-resources --api-group=karpenter.sh --output=name | { grep ^nodepools || true; } "
        "| xargs --no-run-if-empty kubectl delete --all --cascade=foreground --timeout=15m"
    )
    return [
        "kubectl delete namespaces airflow kubeflow monitoring nightshift --ignore-not-found --timeout=15m",
        *([nodes] if cloud == "aws" else []),
        *(
            f"helm uninstall {chart['name']} --namespace {chart['namespace']} --ignore-not-found --wait"
            for chart in wanted
        ),
        *volumes,
        balancers,
    ]


def _install(chart: Chart, names: Mapping[str, str], choices: AbstractSet[str]) -> list[str]:
    if chart["version"] is None:
        raise UserError(
            f"infra/cluster/charts.yaml: {chart['name']} has no version; fill in one that you have looked up"
        )
    steps = _apply_kustomization(chart) if "kustomize" in chart else [_upgrade(chart, names, choices)]
    return [*chart.get("before", []), *steps, *chart.get("after", [])]


def _apply_kustomization(chart: Chart) -> list[str]:
    applied = [
        f"kubectl apply --server-side --force-conflicts -k {shlex.quote(folder)}" for folder in chart["kustomize"]
    ]
    # the first brings kinds of which the second has objects
    return [command for apply in applied for command in (apply, ESTABLISHED)]


def _upgrade(chart: Chart, names: Mapping[str, str], choices: AbstractSet[str]) -> str:
    argv = ["helm upgrade --install", chart["name"], chart["chart"], "--version", chart["version"]]
    argv += ["--repo", chart["repository"]] if "repository" in chart else []
    argv += ["--namespace", chart["namespace"], "--create-namespace"]
    variants = [f"{choice}/" for choice in chart.get("variants", []) if choice in choices]
    argv += [f"--values infra/cluster/values/{folder}{chart['name']}.yaml" for folder in ("", *variants)]
    # in double quotes, so that the shell fills in its variables
    named = {key: value.format(**names) for key, value in chart.get("set", {}).items()}
    argv += [f'--set "{key}={value}"' for key, value in named.items()]
    argv += [f"--set-file {key}={path}" for key, path in chart.get("files", {}).items()]
    return " ".join([*argv, "--wait", "--timeout 15m"])
