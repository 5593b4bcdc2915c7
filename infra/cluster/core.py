"""The commands that install what `charts.yaml` names, for a shell."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from components.common.errors import UserError

Chart = Mapping[str, Any]
ESTABLISHED = "kubectl wait --for=condition=established customresourcedefinitions --all --timeout=2m"


def install(charts: Sequence[Chart], cloud: str, cluster: str) -> list[str]:
    """Return the commands that bring a cluster to what is described here; giving them again changes nothing.

    Args:
        charts: the rows of `charts.yaml`, in order.
        cloud: aws or gcp.
        cluster: name of the cluster, which some charts have to know.

    Raises:
        UserError: when a version is not filled in.
    """
    namespaces = "kubectl apply --server-side --force-conflicts -k infra/cluster/namespaces"
    wanted = [chart for chart in charts if cloud in chart["clouds"]]
    commands = [command for chart in wanted for command in _install(chart, cluster)]
    last = [f"kubectl apply -k infra/{folder}" for folder in (f"kubernetes/{cloud}", "monitoring")]
    # Kubeflow brings its own namespace object: ours again, for the labels it lacks
    return [namespaces, *commands, namespaces, *last]


def uninstall(charts: Sequence[Chart], cloud: str) -> list[str]:
    """Return the commands that remove what holds machines of the cloud: the charts, then all claims and load balancers.

    Charts go in reverse order. Volumes go with their claims, so what is not copied elsewhere is lost.
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
    return [
        *(
            f"helm uninstall {each['name']} --namespace {each['namespace']} --ignore-not-found --wait"
            for each in wanted
        ),
        "kubectl delete namespaces airflow kubeflow monitoring nightshift --ignore-not-found --timeout=15m",
        *volumes,
        balancers,
    ]


def _install(chart: Chart, cluster: str) -> list[str]:
    if chart["version"] is None:
        raise UserError(
            f"infra/cluster/charts.yaml: {chart['name']} has no version; fill in one that you have looked up"
        )
    if "kustomize" in chart:
        remotes = [f"{remote}?ref={chart['version']}" for remote in chart["kustomize"]]
        applied = [f"kubectl apply --server-side --force-conflicts -k {shlex.quote(remote)}" for remote in remotes]
        # the first brings kinds of which the second has objects
        return [command for apply in applied for command in (apply, ESTABLISHED)]
    words = ["helm upgrade --install", chart["name"], chart["chart"], "--version", chart["version"]]
    words += ["--repo", chart["repository"]] if "repository" in chart else []
    words += ["--namespace", chart["namespace"], "--create-namespace"]
    words += ["--values", f"infra/cluster/values/{chart['name']}.yaml"]
    # in double quotes, so that the shell fills in its variables
    words += [f'--set "{key}={value.format(cluster=cluster)}"' for key, value in chart.get("set", {}).items()]
    words += [f"--set-file {key}={path}" for key, path in chart.get("files", {}).items()]
    return [" ".join([*words, "--wait", "--timeout 15m"])]
