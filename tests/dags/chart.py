"""What Airflow's chart makes of our values, with the contents of its secrets and config maps.

`../shared/charts` knows what it makes, as of values that were another day's; what has changed since is put in its place
as the chart does it.
"""

import base64
import configparser
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from nightshift_testkit.cluster.samples import named
from tests.infra.charts import CHARTS, merge_values, read_objects, real, values
from tests.infra.rebuilt import rebuilt

NAMESPACE = "airflow"
(CHART,) = [row for row in CHARTS if row["name"] == "airflow"]
# with the examples' registry, which an installation replaces
VALUES = merge_values(CHART) | {"images": values("airflow")["images"]}
IMAGE = "{repository}:{tag}".format(**VALUES["images"]["airflow"])
# as cloud-install fills in: the example's images, and the state on the claim
FILLED = {"{site}": "aws", "$IMAGES": "", "$STATE": "", "$DATA": "simulator"}
HOME, THEN = VALUES["airflowHome"], "/tmp/airflow"
RIGHTS = ("Role", "RoleBinding", "ServiceAccount")
PARTS = {
    "airflow-api-server": "apiServer",
    "airflow-dag-processor": "dagProcessor",
    "airflow-run-airflow-migrations": "migrateDatabaseJob",
    "airflow-scheduler": "scheduler",
    "airflow-triggerer": "triggerer",
}
PROBES = ("livenessProbe", "startupProbe")
# what the chart takes from which secret; the facts hold the variables' names
SECRETS = {
    "AIRFLOW__API__SECRET_KEY": (VALUES["apiSecretKeySecretName"], "api-secret-key"),
    "AIRFLOW__API_AUTH__JWT_SECRET": (VALUES["jwtSecretName"], "jwt-secret"),
    "AIRFLOW__CORE__FERNET_KEY": ("airflow-fernet-key", "fernet-key"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": (VALUES["data"]["metadataSecretName"], "connection"),
    "AIRFLOW_CONN_AIRFLOW_DB": (VALUES["data"]["metadataSecretName"], "connection"),
}
# what the chart's own templates in its `config` say; sections of theirs that are of no part of ours are left out
RENDERED = {
    ("core", "dags_folder"): f"{HOME}/dags",
    ("core", "executor"): VALUES["executor"],
    ("dag_processor", "dag_bundle_config_list"): json.dumps(
        [{"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}}]
    ),
    ("kubernetes_executor", "multi_namespace_mode"): "False",
    ("kubernetes_executor", "namespace"): NAMESPACE,
    ("kubernetes_executor", "pod_template_file"): f"{HOME}/pod_templates/pod_template_file.yaml",
    ("kubernetes_executor", "worker_container_repository"): VALUES["images"]["airflow"]["repository"],
    ("kubernetes_executor", "worker_container_tag"): VALUES["images"]["airflow"]["tag"],
    ("logging", "remote_logging"): "False",
    ("metrics", "statsd_host"): "airflow-statsd",
    ("metrics", "statsd_on"): str(VALUES["statsd"]["enabled"]),
    ("scheduler", "standalone_dag_processor"): "True",
}
OTHERS = {
    "celery",
    "celery_kubernetes_executor",
    "elasticsearch",
    "elasticsearch_configs",
    "fab",
    "kerberos",
    "webserver",
}


@dataclass(frozen=True)
class Installation:
    """What differs from one installation to another.

    Attributes:
        database: URI of Airflow's database.
        password: of the user `admin`.
        port: of the page and the API, which pods here share with this machine.
        environment: of all parts and tasks.
        config: settings in the place of the chart's and ours, by section.
        files: of a further use case, by their paths in every pod.
    """

    database: str
    password: str
    port: int
    environment: dict[str, str] = field(default_factory=dict)
    config: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def objects(self) -> Iterator[dict[str, Any]]:
        """Everything but StatsD's exporter, which we have not installed."""
        facts = [
            fact for fact in read_objects(CHART) if fact["name"] in PARTS and fact["kind"] not in (*RIGHTS, "Service")
        ]
        parts = [self._part(fact) for fact in facts]
        yield from (rebuilt(fact) for fact in read_objects(CHART) if fact["kind"] in RIGHTS)
        yield from self._secrets()
        (triggerer,) = [manifest for manifest in parts if manifest["metadata"]["name"] == "airflow-triggerer"]
        yield _inside("ConfigMap", "airflow-config", data=self._config(self._worker(triggerer)))
        yield _inside("ConfigMap", "use-case", data={_key(path): text for path, text in self.files.items()})
        yield from parts

    def _secrets(self) -> Iterator[dict[str, Any]]:
        content = {"connection": self.database, "fernet-key": base64.urlsafe_b64encode(b"k" * 32).decode()}
        content |= {"api-secret-key": "a" * 32, "jwt-secret": "j" * 96}
        for secret in sorted({name for name, _ in SECRETS.values()}):
            keys = {key for name, key in SECRETS.values() if name == secret}
            yield _inside("Secret", secret, stringData={key: content[key] for key in keys})
        login = json.dumps({"admin": self.password})
        yield _inside("Secret", "airflow-login", stringData={"passwords.json": login})

    def _config(self, worker: dict[str, Any]) -> dict[str, str]:
        written = configparser.ConfigParser(interpolation=None)
        written.read_dict(_settings(real("airflow", "values.yaml")["config"]))
        written.read_dict(_settings(VALUES["config"]))
        written.read_dict(self.config)
        text = io.StringIO()
        written.write(text)
        template = yaml.safe_dump(worker)
        return {"airflow.cfg": text.getvalue(), "airflow_local_settings.py": "", "pod_template_file.yaml": template}

    def _part(self, fact: dict[str, Any]) -> dict[str, Any]:
        """Return a part of Airflow, with our values of today."""
        section = VALUES[PARTS[fact["name"]]]
        fact = json.loads(json.dumps(fact).replace(THEN, HOME).replace('"port": 8080', f'"port": {self.port}'))
        fact["securityContext"] = VALUES["securityContexts"]["pod"]
        fact["volumes"] += section.get("extraVolumes", [])
        main, *groomers = fact["containers"]
        main["args"] = section.get("args", main["args"])
        main |= {probe: section[probe]["command"] for probe in PROBES if "command" in section.get(probe, {})}
        for groomer in groomers:
            groomer["args"] = section["logGroomerSidecar"]["args"]
        part = rebuilt(fact)
        pod = part["spec"]["template"]["spec"]
        pod["containers"][0]["volumeMounts"] += section.get("extraVolumeMounts", [])
        if "priorityClassName" in section:
            pod["priorityClassName"] = section["priorityClassName"]
        self._complete(pod)
        return part

    def _complete(self, pod: dict[str, Any]) -> None:
        """Give a pod's containers what every one of them gets."""
        ours = [variable | {"value": FILLED.get(variable["value"], variable["value"])} for variable in VALUES["env"]]
        ours += [{"name": name, "value": value} for name, value in self.environment.items()]
        pod["volumes"].append({"name": "use-case", "configMap": {"name": "use-case"}})
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            container["image"] = IMAGE
            container["env"] = [*map(_variable, container["env"]), *ours]
            container["volumeMounts"] += [
                {"name": "use-case", "mountPath": path, "subPath": _key(path)} for path in self.files
            ]

    def _worker(self, triggerer: dict[str, Any]) -> dict[str, Any]:
        """Return the pod of a task, which the chart makes as it makes the triggerer's, with an executor of its own."""
        like = triggerer["spec"]["template"]["spec"]
        container = {name: value for name, value in like["containers"][0].items() if name not in ("args", *PROBES)}
        container |= {"name": "base", "ports": []}
        container["env"] = [{"name": "AIRFLOW__CORE__EXECUTOR", "value": "LocalExecutor"}, *container["env"]]
        spec = {name: like[name] for name in ("nodeSelector", "securityContext")}
        spec |= {"serviceAccountName": "airflow-worker", "restartPolicy": "Never", "containers": [container]}
        spec["volumes"] = [*like["volumes"], {"name": "logs", "emptyDir": {}}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, "spec": spec}


def _inside(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    value = named(kind, name, **fields)
    value["metadata"]["namespace"] = NAMESPACE
    return value


def _key(path: str) -> str:
    return path.rpartition("/")[2]


def _variable(item: dict[str, Any]) -> dict[str, Any]:
    if item["name"] not in SECRETS:
        return item
    name, key = SECRETS[item["name"]]
    return {"name": item["name"], "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def _settings(sections: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        section: {key: RENDERED.get((section, key), str(value)) for key, value in settings.items()}
        for section, settings in sections.items()
        if section not in OTHERS
    }
