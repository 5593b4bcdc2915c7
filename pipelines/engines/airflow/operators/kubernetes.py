"""A step as a pod, with the image, resources, nodes, volumes and secrets of the compiled YAML."""

import itertools
import json
import signal
import time
from functools import cached_property
from http import HTTPStatus
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.utils.pod_manager import PodPhase
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException

from nightshift.cluster import ACCOUNT, is_full
from nightshift.runtime.argv import require_short
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import MESSAGE, PREEMPTED, PREEMPTIONS, USER_ERROR
from pipelines import ir
from pipelines.engines.airflow.operators.context import Rendering
from pipelines.engines.airflow.operators.lineage import name_parent
from pipelines.engines.airflow.operators.links import MODEL, REPORT, TEMPLATES
from pipelines.engines.airflow.operators.podlogs import LogFollower
from pipelines.environments import GRACE, SERVICE_ACCOUNT

# as Kubeflow labels its pods, so that one network policy is for both
LABELS = {"pipelines.kubeflow.org/v2_component": "true", "app.kubernetes.io/part-of": "nightshift"}
USER = 10001  # as in the images; without a group, Kubernetes would run them as root's
MESSAGE_PATH = "/dev/termination-log"
STARTUP_SECONDS = 1800  # a GPU node may have to be made first


class PodPreemptedError(AirflowException):
    """A pod was ended from outside, or early after it had saved what its successor needs."""


class OutOfMemoryError(AirflowFailException):
    """A pod was killed for its memory, and would be again."""


ENDS: dict[int, type[AirflowException]] = {USER_ERROR: AirflowFailException, PREEMPTED: PodPreemptedError}
KILLED = 128 + signal.SIGKILL


class PodOperator(KubernetesPodOperator):
    """A pod of a step.

    A preemption is followed by another pod within the same try, whether the step noticed it (exit code 75) or its pod
    was deleted, drained or lost with its node. A mistake of the user (2) is not retried, nor is a step that ran out of
    memory. What a step says of itself at its end becomes the task's XCom: Airflow sees no other trace of it.
    """

    template_fields = (*KubernetesPodOperator.template_fields, "links")
    operator_extra_links = (REPORT, MODEL)
    preemptions = PREEMPTIONS
    quota_seconds = 30.0

    def __init__(self, *, rendering: Rendering, number: int = 0, **options: Any) -> None:
        """Make the task of a step, or of one in a loop by its number: there only the command line differs."""
        super().__init__(**options)
        self.rendering = rendering
        self.links = TEMPLATES
        self.output_metadata: dict[str, Any] = {}

    @cached_property
    def pod_manager(self) -> LogFollower:
        """What reads and makes pods."""
        return LogFollower(kube_client=self.client, callbacks=self.callbacks)

    def execute(self, context: Any) -> None:
        """Run the step, and copy what it prints into the task's log meanwhile.

        A worker waits for it: a deferred task would show the log at its end only, and nothing of a node that is lost.

        Raises:
            AirflowException: see `cleanup`.
            AirflowFailException: when the config is too long for a container's arguments.
        """
        try:
            require_short(self.rendering.commands(context).arguments, "Airflow on a cluster")
        except UserError as error:
            raise AirflowFailException(str(error)) from None
        try:
            self._run_pods(context)
        except AirflowException as error:
            context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value={"error": str(error)})  # for the report
            raise
        self.output_metadata = _read_message(_end(self.remote_pod, self.base_container_name))
        context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=self.output_metadata)

    def _run_pods(self, context: Any) -> None:
        """Run the step in a pod, after each preemption in another one."""
        for count in itertools.count(1):
            try:
                super().execute(context)
                return
            except PodPreemptedError as error:
                if self._killed or count > self.preemptions:
                    raise
                self.log.info("%s; another pod resumes (%d of at most %d)", error, count, self.preemptions)
                self.pod = self.pod_request_obj = self.remote_pod = None

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Any) -> k8s.V1Pod:
        """Create the pod as its parent does, once the namespace's quota allows it."""
        pod_request_obj.spec.containers[0].env += itertools.starmap(k8s.V1EnvVar, name_parent(context).items())
        while True:
            try:
                return super().get_or_create_pod(pod_request_obj, context)
            except ApiException as error:
                if not is_full(error):
                    raise
            self.log.info("the quota of %s is used up; waiting", pod_request_obj.metadata.namespace)
            time.sleep(self.quota_seconds)

    def cleanup(self, pod: k8s.V1Pod, remote_pod: k8s.V1Pod, *rest: Any, **options: Any) -> None:
        """Clean up as its parent does.

        Raises:
            AirflowFailException: on a mistake of the user, and when memory did not suffice.
            PodPreemptedError: on a preemption.
            AirflowException: on any other failure, such as a task that is told to end. The text of each says how the
                container ended, why the pod did where Kubernetes says so, and the step's last lines.
        """
        if self._killed:  # its parent would return, and a task that was told to end would count as a success
            raise AirflowException("the task was told to end, and its pod with it")
        seen, succeeded = self._last_seen(), remote_pod and remote_pod.status.phase == PodPhase.SUCCEEDED
        if self.pod and not seen and not succeeded:
            raise PodPreemptedError("the pod was deleted, or lost with its node") from None
        last = seen or remote_pod
        try:
            super().cleanup(pod, last, *rest, **options)
        except Exception:
            raise failure(last, self.base_container_name) from None

    def _last_seen(self) -> k8s.V1Pod | None:
        """Return the pod's current state; None when the pod is gone or was never created."""
        try:
            return self.pod_manager.read_pod(self.pod) if self.pod else None
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None


def place_pod(step: ir.PipelineTask, rendering: Rendering) -> dict[str, Any]:
    """Return what a step's pod gets, as options of its task."""
    settings = step.kubernetes
    annotations = settings.get("podMetadata", {}).get("annotations", {})
    account = annotations.get(ACCOUNT)
    return {
        "name": f"{rendering.pipeline.name}-{step.loop or step.name}",
        "namespace": rendering.settings.namespace,
        "service_account_name": account or SERVICE_ACCOUNT,
        # a step that asks nothing of Kubernetes gets no token for it
        "automount_service_account_token": bool(account),
        "image": step.image,
        "env_vars": [
            *(k8s.V1EnvVar(name, value) for name, value in {**step.environment, MESSAGE: MESSAGE_PATH}.items()),
            *(_secret(item, key) for item in settings.get("secretAsEnv", []) for key in item["keyToEnv"]),
        ],
        "labels": LABELS | settings.get("podMetadata", {}).get("labels", {}),
        "container_resources": _resources(step.resources),
        "node_selector": settings.get("nodeSelector", {}).get("labels", {}),
        "tolerations": [k8s.V1Toleration(**taint) for taint in settings.get("tolerations", [])],
        "volumes": [*map(_claim, settings.get("pvcMount", [])), *map(_scratch, settings.get("emptyDirMounts", []))],
        "volume_mounts": _mounts(settings),
        "security_context": k8s.V1PodSecurityContext(
            run_as_non_root=True,
            run_as_user=USER,
            run_as_group=USER,
            seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
        ),
        "container_security_context": k8s.V1SecurityContext(
            allow_privilege_escalation=False, capabilities=k8s.V1Capabilities(drop=["ALL"])
        ),
        "active_deadline_seconds": int(settings.get("activeDeadlineSeconds", 0)) or None,
        "termination_grace_period": int(annotations.get(GRACE, 0)) or None,
        "startup_timeout_seconds": STARTUP_SECONDS,
        "startup_check_interval_seconds": 1,
        # a failure writes no message, so the end of its log is kept; the pod's specification would bury it
        "termination_message_policy": "FallbackToLogsOnError",
        "log_pod_spec_on_failure": False,
    }


def _resources(resources: dict[str, Any]) -> k8s.V1ResourceRequirements:
    limits = {"cpu": resources.get("resourceCpuLimit"), "memory": resources.get("resourceMemoryLimit")}
    if accelerator := resources.get("accelerator"):
        limits[accelerator["resourceType"]] = accelerator["resourceCount"]
    requests = {"cpu": resources.get("resourceCpuRequest"), "memory": resources.get("resourceMemoryRequest")}
    return k8s.V1ResourceRequirements(
        limits={name: value for name, value in limits.items() if value},
        requests={name: value for name, value in requests.items() if value},
    )


def _secret(secret: dict[str, Any], key: dict[str, str]) -> k8s.V1EnvVar:
    selector = k8s.V1SecretKeySelector(key["secretKey"], secret["secretName"], secret["optional"])
    return k8s.V1EnvVar(key["envVar"], value_from=k8s.V1EnvVarSource(secret_key_ref=selector))


def _claim(mount: dict[str, Any]) -> k8s.V1Volume:
    source = k8s.V1PersistentVolumeClaimVolumeSource(claim_name=mount["constant"])
    return k8s.V1Volume(name=mount["constant"], persistent_volume_claim=source)


def _scratch(mount: dict[str, Any]) -> k8s.V1Volume:
    source = k8s.V1EmptyDirVolumeSource(medium=mount["medium"], size_limit=mount["sizeLimit"])
    return k8s.V1Volume(name=mount["volumeName"], empty_dir=source)


def _mounts(settings: dict[str, Any]) -> list[k8s.V1VolumeMount]:
    claims = {item["constant"]: item["mountPath"] for item in settings.get("pvcMount", [])}
    scratch = {item["volumeName"]: item["mountPath"] for item in settings.get("emptyDirMounts", [])}
    return [k8s.V1VolumeMount(name=name, mount_path=path) for name, path in (claims | scratch).items()]


def _end(pod: k8s.V1Pod | None, container: str) -> k8s.V1ContainerStateTerminated | None:
    """Return how a pod's container ended, if it has."""
    for status in (pod and pod.status and pod.status.container_statuses) or []:
        if status.name == container and status.state.terminated:
            return status.state.terminated
    return None


def _read_message(ended: k8s.V1ContainerStateTerminated | None) -> dict[str, Any]:
    """Return the metadata in a container's termination message; empty when it has none or is no step."""
    try:
        message = json.loads(ended.message) if ended else None
    except (TypeError, ValueError):
        return {}
    return message if isinstance(message, dict) else {}


def failure(pod: k8s.V1Pod, container: str) -> AirflowException:
    """Return the exception with which a pod's task fails."""
    ended = _end(pod, container)
    kind, how = _kind(pod, ended), f"exit code {ended.exit_code}" if ended else "the pod never started"
    if kind is OutOfMemoryError:
        how = f"killed for lack of memory ({how}); raise its role's memory_limit in pipelines/environments.py"
    reasons = [how, pod.status.reason, pod.status.message, ended and ended.message]
    return kind("\n".join(filter(None, reasons)))


def _kind(pod: k8s.V1Pod, ended: k8s.V1ContainerStateTerminated | None) -> Any:
    if ended and (ended.exit_code, ended.reason) == (KILLED, "OOMKilled"):
        return OutOfMemoryError
    if _is_disrupted(pod):
        return PodPreemptedError
    return ENDS.get(ended.exit_code, AirflowException) if ended else AirflowException


def _is_disrupted(pod: k8s.V1Pod) -> bool:
    """Return whether somebody else has ended a pod: a drain, the scheduler, a node that shuts down, a person."""
    conditions = {condition.type: condition.status for condition in pod.status.conditions or []}
    return bool(pod.metadata.deletion_timestamp) or conditions.get("DisruptionTarget") == "True"
