"""A deployment's dashboard for Grafana: throughput, latency, queue, GPUs and tokens per dollar."""

from typing import Any

from nightshift_perf.planning.serving.deployment.manifests import ServingDeployment

Json = dict[str, Any]
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
RATE = "[$__rate_interval]"


def make_dashboard(deployment: ServingDeployment) -> Json:
    """Return the dashboard; the price of a replica is a variable, as prices change."""
    return {
        "uid": f"serving-{deployment.name}"[:40],
        "title": f"Serving: {deployment.name}",
        "description": _describe(deployment),
        "tags": ["nightshift"],
        "schemaVersion": 39,
        "timezone": "utc",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _list_variables(deployment)},
        "panels": [_position_panel(number, panel) for number, panel in enumerate(_list_panels(deployment))],
    }


def _describe(deployment: ServingDeployment) -> str:
    plan = deployment.plan
    return (
        f"Planned: {plan.point.first_token_p99 * 1e3:,.0f} ms to the first token (99 %), "
        f"{plan.point.token * 1e3:,.1f} ms per further token, {plan.tokens_per_gpu:,.0f} tokens/s per GPU, "
        f"{1e6 / plan.usd_per_million:,.0f} tokens per dollar at {plan.demand.rate:g} requests/s."
    )


def _list_variables(deployment: ServingDeployment) -> list[Json]:
    price = f"{deployment.replica_usd:.2f}"
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "replica_dollars",
            "label": "Dollars per replica and hour",
            "type": "textbox",
            "query": price,
            "current": {"text": price, "value": price},
        },
    ]


def _list_panels(deployment: ServingDeployment) -> list[Json]:
    metrics, pods = deployment.engine.metrics, deployment.selector
    gpus = f'modelName=~".*{deployment.plan.replica.gpu.name.partition("-")[0].upper()}.*"'
    generated = f"sum(rate({metrics.generated}{{{pods}}}{RATE}))"
    replicas = f"count({metrics.running}{{{pods}}})"
    rates = {"generated": generated, "prompts": f"sum(rate({metrics.prompted}{{{pods}}}{RATE}))"}
    queue = {"waiting": f"sum({metrics.waiting}{{{pods}}})", "running": f"sum({metrics.running}{{{pods}}})"}
    dollars = {"tokens per dollar": f"{generated} * 3600 / ({replicas} * $replica_dollars)"}
    return [
        _panel("Tokens a second", "short", rates),
        _panel("Time to the first token", "s", _quantiles(metrics.first_token, pods)),
        _panel("Time per further token", "s", _quantiles(metrics.token, pods)),
        _panel("Requests", "short", queue),
        _panel("Replicas", "short", {"replicas": replicas}),
        _panel("Cache in use", "percentunit", {"{{pod}}": f"max by (pod) ({metrics.cache}{{{pods}}})"}),
        _panel("GPUs active", "percentunit", {"{{Hostname}}": f"avg by (Hostname) (DCGM_FI_PROF_SM_ACTIVE{{{gpus}}})"}),
        _panel("Memory of GPUs", "mbytes", {"{{Hostname}}": f"avg by (Hostname) (DCGM_FI_DEV_FB_USED{{{gpus}}})"}),
        _panel("Tokens per dollar", "short", dollars),
    ]


def _quantiles(histogram: str, pods: str) -> dict[str, str]:
    rate = f"sum by (le) (rate({histogram}_bucket{{{pods}}}{RATE}))"
    return {name: f"histogram_quantile({share}, {rate})" for name, share in (("50 %", 0.5), ("99 %", 0.99))}


def _panel(title: str, unit: str, queries: dict[str, str]) -> Json:
    targets = [
        {"refId": chr(ord("A") + number), "expr": query, "legendFormat": legend}
        for number, (legend, query) in enumerate(queries.items())
    ]
    defaults = {"unit": unit, "min": 0}
    fields = {"defaults": defaults, "overrides": []}
    return {"title": title, "type": "timeseries", "datasource": DATASOURCE, "fieldConfig": fields, "targets": targets}


def _position_panel(number: int, panel: Json) -> Json:
    row, column = divmod(number, COLUMNS)
    position = {"x": WIDTH * column, "y": HEIGHT * row, "w": WIDTH, "h": HEIGHT}
    return {"id": number + 1, "gridPos": position} | panel
