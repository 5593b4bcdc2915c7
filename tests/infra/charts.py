"""The charts as they are: what `../shared/charts` says of each, and what we give it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from infra.cluster import core

Json = dict[str, Any]
FOLDER = Path(core.__file__).resolve().parent
ROOT = FOLDER.parents[1]
REAL = ROOT.parent / "shared" / "charts"
CHARTS: list[Json] = yaml.safe_load((FOLDER / "charts.yaml").read_text())
# whose facts are not in ../shared/charts: its values were held by hand against its repository, at the version installed
NOT_AT_HAND = {"kueue"}
HELM = [chart for chart in CHARTS if "chart" in chart and chart["name"] not in NOT_AT_HAND]
# maps whose keys are the user's own
FREE = {
    "airflow": ("config", "nodeSelector", "securityContexts.pod"),
    "cert-manager": ("global.nodeSelector",),
    "cluster-autoscaler": ("expanderPriorities", "extraArgs", "nodeSelector"),
    "dcgm-exporter": ("nodeSelector",),
    "karpenter": ("nodeSelector",),
    "kube-prometheus-stack": (
        "alertmanager.alertmanagerSpec.nodeSelector",
        "prometheus.prometheusSpec.nodeSelector",
        "prometheus.prometheusSpec.storageSpec",
    ),
    "nvidia-device-plugin": ("config.map",),
    "pushgateway": ("nodeSelector",),
}
# keys that a chart reads and its values.yaml does not hold: in a comment there, or of a chart inside it
UNLISTED = {"dcgm-exporter": ("customMetrics",), "kube-prometheus-stack": ("grafana.nodeSelector",)}


def values(name: str, choice: str = "") -> Json:
    """Our values of a chart, or those that a choice adds to them, without what the command line adds."""
    read: Json = yaml.safe_load((FOLDER / "values" / choice / f"{name}.yaml").read_text())
    return read


def merge_values(chart: Json) -> Json:
    """All values that a chart may be given, those of the command line as they are written in `charts.yaml`."""
    filled = values(chart["name"])
    for choice in chart.get("variants", []):
        filled |= values(chart["name"], choice)
    for path, value in {**chart.get("set", {}), **chart.get("files", {})}.items():
        set_value(filled, [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", path)], value)
    return filled


def set_value(into: Any, path: list[Any], value: str) -> None:
    """Set one nested value, as Helm's --set does."""
    for step in path[:-1]:
        into = into[step] if isinstance(step, int) else into.setdefault(step, {})
    into[path[-1]] = value


def real(name: str, kind: str) -> Any:
    """`Chart.yaml`, `values.yaml` or `values.schema.json` of a chart; nothing where it has none."""
    path = REAL / "values" / f"{name}.{kind}"
    return yaml.load(path.read_text(), yaml.CSafeLoader) if path.exists() else None


def unknown(chart: Json) -> list[str]:
    """The values that a chart is given and does not know."""
    name = chart["name"]
    return list(
        _unknown(merge_values(chart), real(name, "values.yaml") or {}, FREE.get(name, ()) + UNLISTED.get(name, ()))
    )


def _unknown(ours: Json, theirs: Any, fine: tuple[str, ...], above: str = "") -> Iterator[str]:
    for key, value in ours.items():
        path = f"{above}{key}"
        if path in fine:
            continue
        if not isinstance(theirs, dict) or key not in theirs:
            yield path
        elif key == "resources":  # Kubernetes' own, which charts leave empty
            yield from (f"{path}.{field}" for field in value if field not in ("requests", "limits"))
        elif isinstance(value, dict):
            yield from _unknown(value, theirs[key], fine, f"{path}.")


def read_objects(chart: Json) -> list[Json]:
    """Facts of the objects that a chart makes, each with its namespace."""
    path = REAL / "objects" / f"{chart['name']}.yaml"
    documents = yaml.load_all(path.read_text(), yaml.CSafeLoader) if path.exists() else ()
    return [{"namespace": chart["namespace"]} | value for value in documents if value]
