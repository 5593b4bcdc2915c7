"""The folder of a deployment, for `kubectl apply -k`."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import yaml

from nightshift.runtime.errors import UserError
from nightshift_perf.planning.serving.deployment import manifests
from nightshift_perf.planning.serving.deployment.dashboard import make_dashboard
from nightshift_perf.planning.serving.deployment.engines import CONFIG
from nightshift_perf.planning.serving.deployment.manifests import NAMESPACE, Json, ServingDeployment

# file -> its objects, and what is said above them
FILES: dict[str, tuple[Callable[[ServingDeployment], list[Json]], str]] = {
    "weights.yaml": (
        manifests.make_weights,
        "Needs a storage class that several machines read from. Copy the weights there before the engine starts.",
    ),
    "engine.yaml": (manifests.make_engine, "How many pods there are, scaling.yaml says."),
    "routing.yaml": (
        manifests.make_routing,
        "The Gateway is yours; an endpoint picker is llm-d's, where you want one.",
    ),
    "scaling.yaml": (
        manifests.make_scaling,
        "A replica for each so many waiting requests, or for each full batch, whichever asks for more.",
    ),
    "monitoring.yaml": (manifests.make_monitoring, "What scaling.yaml and the dashboard ask Prometheus for."),
}
DASHBOARD, SCRIPT, CONFIG_FILE = "dashboard.json", "quantize.py", CONFIG.rpartition("/")[2]


def name_deployment(model: str) -> str:
    """Return the name of a model's deployment, a DNS label: of a file, that of its folder.

    Raises:
        UserError: when nothing of the model's name can be in one.
    """
    path = Path(model).resolve()
    stem = path.parent.name if path.suffix == ".json" else path.name
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40].rstrip("-")
    if not re.fullmatch(r"[a-z].*", name):
        raise UserError(
            f"--model is {model!r}, which gives no name of a deployment; rename the folder to start with a-z"
        )
    return name


def write_deployment(deployment: ServingDeployment, folder: Path) -> list[Path]:
    """Write the files of a deployment; return them.

    Raises:
        UserError: when the folder cannot be written.
    """
    texts = {name: _write_objects(make(deployment), note) for name, (make, note) in FILES.items()}
    texts |= _write_others(deployment)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in {CONFIG_FILE, SCRIPT} - texts.keys():  # of another engine or precision
            (folder / name).unlink(missing_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise UserError(f"--write is {folder}: {error.strerror}; name a folder that can be written") from error
    return [folder / name for name in texts]


def _write_others(deployment: ServingDeployment) -> dict[str, str]:
    """Return what is no manifest: dashboard, the engine's config, the script that quantizes, the kustomization."""
    texts = {DASHBOARD: f"{json.dumps(make_dashboard(deployment), indent=2)}\n"}
    if config := deployment.engine.config(deployment.plan):
        texts[CONFIG_FILE] = yaml.safe_dump(config, sort_keys=False)
    if script := deployment.engine.quantization.get(deployment.plan.replica.precision):
        texts[SCRIPT] = script
    return texts | {"kustomization.yaml": _write_kustomization(deployment, CONFIG_FILE in texts)}


def _write_kustomization(deployment: ServingDeployment, has_config: bool) -> str:
    dashboard: Json = {"name": f"{deployment.name}-dashboard", "files": [DASHBOARD]}
    # by which the sidecar of Grafana's chart finds dashboards
    dashboard["options"] = {"labels": {"grafana_dashboard": "1"}, "disableNameSuffixHash": True}
    engine = [{"name": f"{deployment.name}-engine", "files": [CONFIG_FILE]}] if has_config else []
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": list(FILES),
        "configMapGenerator": [dashboard, *engine],
    }
    return f"{_summarize(deployment)}{yaml.safe_dump(content, sort_keys=False)}"


def _summarize(deployment: ServingDeployment) -> str:
    plan, quota = deployment.plan, deployment.quota
    lines = (
        f"{deployment.name} for {plan.demand.rate:g} requests/s of {plan.demand.request.prompt:,} + "
        f"{plan.demand.request.output:,} tokens: {plan.replicas} replicas of",
        f"{plan.replica.tensor} {plan.replica.gpu.name}, {plan.replica.precision}, on {plan.machines} x "
        f"{plan.machine.name}, {plan.usd_per_hour:,.2f} USD/h {plan.market} ({plan.machine.date}).",
        f"The quota of {NAMESPACE} needs room for {quota['gpu']} GPUs, {quota['cpu']} CPUs and {quota['memory']}Gi.",
        "Then kubectl apply -k this folder. No cluster with GPUs has run it yet: try one replica first.",
    )
    return "".join(f"# {line}\n" for line in lines)


def _write_objects(objects: list[Json], note: str) -> str:
    return f"# {note}\n{yaml.safe_dump_all(objects, sort_keys=False, width=120)}"
