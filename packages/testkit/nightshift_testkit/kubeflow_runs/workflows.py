"""Runs as workflows: each task's pods through the cluster's API, one after the other as Argo tries them again."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from typing import Any

import kfp_server_api as api
from kubernetes import client

from nightshift.runtime import strict_yaml
from nightshift_testkit.kubeflow import Kubeflow
from nightshift_testkit.kubeflow_runs import spec
from nightshift_testkit.kubeflow_runs.pods import Wanted
from nightshift_testkit.kubeflow_runs.records import MetadataRecords
from nightshift_testkit.kubeflow_runs.spec import Json, RunFacts, TaskNode

NAMESPACE = "kubeflow"
ACCOUNT = "pipeline-runner"  # Kubeflow's own, of runs that name none
DEFAULT_ROOT = "minio://mlpipeline/v2/artifacts"
AGAIN = 0.1  # seconds between two looks at a pod
# what Argo's container beside a step asks for, with the step's account
RESULTS = {"group": "argoproj.io", "resource": "workflowtaskresults", "verb": "create", "namespace": NAMESPACE}
# what is tried again by each of Argo's policies
KINDS = {"OnError": {"Error"}, "OnFailure": {"Failed"}, "Always": {"Error", "Failed"}}


@dataclass(frozen=True)
class TryOutcome:
    """How a try of a task ended: Succeeded, Failed when its pod did, Error when it has none."""

    phase: str
    message: str = ""


# what Argo's language makes of the expressions that are installed
EXPRESSIONS: dict[str, Callable[[TryOutcome], bool]] = {
    "": lambda last: True,
    "lastRetry.message != ''": lambda last: last.message != "",
}


@dataclass
class Argo:
    """Carries out the runs of a server.

    Attributes:
        kubeflow: the server.
        url: of the cluster's API.
        token: gives that of an account in the namespace.
        records: what launchers report.
        pace: seconds that one second of a pause before another try takes here.
        workflows: what is under way or done.
    """

    kubeflow: Kubeflow
    url: str
    token: Any
    records: MetadataRecords
    pace: float = 0.0
    workflows: "list[Workflow]" = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def start(self, run: Any) -> None:
        workflow = Workflow(self, run)
        self.workflows.append(workflow)
        workflow.start()

    def stop(self) -> None:
        self.stopped.set()
        for workflow in self.workflows:
            workflow.join()

    def api(self, stack: ExitStack, account: str) -> Any:
        """A client that an account has."""
        connection = client.ApiClient(client.Configuration(host=self.url))
        connection.set_default_header("authorization", f"Bearer {self.token(NAMESPACE, account)}")
        return stack.enter_context(connection)

    def definition(self, run: Any) -> Json:
        if run.pipeline_spec:
            return dict(run.pipeline_spec)
        wanted = run.pipeline_version_reference.pipeline_version_id
        (version,) = [version for version in self.kubeflow.versions if version.pipeline_version_id == wanted]
        return dict(version.pipeline_spec)


class Workflow(threading.Thread):
    """A run that is carried out."""

    def __init__(self, argo: Argo, run: Any) -> None:
        super().__init__(name=run.run_id, daemon=True)
        self.argo, self.record = argo, run
        self.account = run.service_account or ACCOUNT
        self.tries: dict[str, list[TryOutcome]] = {}
        self.artifacts: dict[str, Json] = {}
        self.waits: dict[str, str] = {}  # tasks whose pods are refused for now, and why

    def run(self) -> None:
        self.record.state, self.record.run_details = "RUNNING", api.V2beta1RunDetails(task_details=[])
        began = datetime.now(UTC)
        try:
            with ExitStack() as stack:
                self._begin(stack)
                message = self._walk()
        except Exception as error:
            # a driver that fails is a run that fails; who waits for it is told
            message = f"driver: {_message_of(error) if isinstance(error, client.ApiException) else repr(error)}"
        self.record.finished_at = self.record.created_at + (datetime.now(UTC) - began)
        if message:
            self.record.error = api.GoogleRpcStatus(code=2, message=message)
        self.record.state = "FAILED" if message else "SUCCEEDED"

    def _begin(self, stack: ExitStack) -> None:
        """Do what the driver of the whole graph does, with the run's account: find out where artifacts are to lie."""
        own = self.argo.api(stack, self.account)
        self._own, self._core = client.AuthorizationV1Api(own), client.CoreV1Api(self.argo.api(stack, "argo"))
        config = client.CoreV1Api(own).read_namespaced_config_map("kfp-launcher", NAMESPACE).data or {}
        installed = self._core.read_namespaced_config_map("workflow-controller-configmap", NAMESPACE).data
        defaults = strict_yaml.load_document(installed["workflowDefaults"])["spec"]["templateDefaults"]
        self._policy = defaults["retryStrategy"]
        whole = self.argo.definition(self.record)
        spec_ = whole.get("pipeline_spec", whole)
        self._tasks = spec.tasks(whole)
        self._facts = RunFacts(
            spec_["pipelineInfo"]["name"],
            self.record.run_id,
            self.record.display_name,
            spec.parameters(whole, self.record.runtime_config.parameters or {}),
            config.get("defaultPipelineRoot") or DEFAULT_ROOT,
        )

    def _walk(self) -> str:
        """Run all tasks, each after those it needs; return why one failed, after which none starts."""
        order, message = TopologicalSorter({name: task.needs for name, task in self._tasks.items()}), ""
        order.prepare()
        under_way: dict[Future[TryOutcome], str] = {}
        with ThreadPoolExecutor(len(self._tasks)) as pool:
            while order.is_active():
                ready: Iterable[str] = () if message else order.get_ready()
                under_way |= {pool.submit(self._run, self._tasks[name]): name for name in ready}
                if not under_way:
                    break
                for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                    name, outcome = under_way.pop(done), done.result()
                    message = message or (f"{name}: {outcome.message}" if outcome.message else "")
                    order.done(name)
        return message

    def _run(self, task: TaskNode) -> TryOutcome:
        detail = api.V2beta1PipelineTaskDetail(
            run_id=self.record.run_id, task_id=task.name, display_name=task.name, state="RUNNING"
        )
        self.record.run_details.task_details.append(detail)
        executor_input = spec.executor_input(task, self._facts, self.artifacts, str(uuid.uuid4()))
        execution = f"{self.record.run_id}.{task.name}"
        outcome = self._tried(task, executor_input, execution)
        if outcome.phase == "Succeeded":
            self.artifacts[task.name] = self.argo.records.artifacts[execution]
            detail.state = "SUCCEEDED"
        else:
            detail.error = api.GoogleRpcStatus(code=2, message=outcome.message)
            detail.state = "FAILED"
        return outcome

    def _tried(self, task: TaskNode, executor_input: Json, execution: str) -> TryOutcome:
        """Try a task as often as it is allowed to."""
        workflow = f"{self._facts.pipeline}-{self.record.run_id}"
        tries = self.tries[task.name] = []
        while True:
            wanted = Wanted(task, executor_input, self.account, workflow, execution, len(tries))
            tries.append(self._once(wanted))
            if self.argo.stopped.is_set() or not self._again(task, tries):
                return tries[-1]

    def _again(self, task: TaskNode, tries: list[TryOutcome]) -> bool:
        """Whether Argo tries once more, after the pause before it.

        Kubeflow's compiler says how often and names no policy, so that is of the defaults that Argo is installed with.
        """
        retry, last = task.node.get("retryPolicy", {}), tries[-1]
        limit = int(retry.get("maxRetryCount", self._policy["limit"]))
        kinds = KINDS[self._policy.get("retryPolicy", "OnFailure")]
        allowed = EXPRESSIONS[self._policy.get("expression", "")](last)
        if last.phase not in kinds or len(tries) > limit or not allowed:
            return False
        seconds = float(retry.get("backoffDuration", "0s").removesuffix("s"))
        time.sleep(seconds * float(retry.get("backoffFactor", 1)) ** (len(tries) - 1) * self.argo.pace)
        return True

    def _once(self, wanted: Wanted) -> TryOutcome:
        while not self.argo.stopped.is_set():
            try:
                self._core.create_namespaced_pod(NAMESPACE, wanted.pod)
                break
            except client.ApiException as error:
                # Argo asks again for what a quota has no room for, without an end
                if "exceeded quota" not in _message_of(error):
                    return TryOutcome("Error", _message_of(error))
                self.waits[wanted.task.name] = _message_of(error)
                time.sleep(AGAIN)
        return self._watched(wanted)

    def _watched(self, wanted: Wanted) -> TryOutcome:
        while not self.argo.stopped.is_set():
            try:
                status = self._core.read_namespaced_pod(wanted.name, NAMESPACE).status
            except client.ApiException as error:
                return TryOutcome("Error", "pod deleted" if error.status == 404 else _message_of(error))
            if status.phase == "Failed":
                return TryOutcome("Failed", _failure(status))
            if status.phase == "Succeeded":
                return self._reported()
            time.sleep(AGAIN)
        return TryOutcome("Error", "stopped")

    def _reported(self) -> TryOutcome:
        """Let Argo's container write down how the step ended, if the account of the run may do so."""
        review = {"spec": {"resourceAttributes": RESULTS}}
        if self._own.create_self_subject_access_review(review).status.allowed:
            return TryOutcome("Succeeded")
        return TryOutcome("Error", f"workflowtaskresults.argoproj.io is forbidden to {self.account}")


def _failure(status: Any) -> str:
    if status.message:
        return str(status.message)
    ended = {container.name: container.state.terminated for container in status.container_statuses}["main"]
    return f"main: {ended.reason} (exit code {ended.exit_code})" if ended else "pod failed"


def _message_of(error: client.ApiException) -> str:
    return str(strict_yaml.load_document(error.body)["message"])
