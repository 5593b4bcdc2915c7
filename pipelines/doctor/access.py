"""Rights: what each account of the engines and steps does in Kubernetes, asked of the API's own reviews."""

from collections.abc import Sequence
from dataclasses import dataclass

from nightshift.cluster import MissingError
from nightshift.contracts.health import HealthCheck
from nightshift.runtime.errors import UserError
from pipelines.doctor.findings import INSTALL, Checks, judge, skip
from pipelines.doctor.kubernetes import Json, Kubernetes
from pipelines.environments import SERVICE_ACCOUNT, Site

REVIEWS = "/apis/authorization.k8s.io/v1/"
RUNS, MODELS = "kubeflow", "nightshift"  # namespaces: of steps, of the registry and served models

TRAINER = "nightshift-training"  # account that follows TrainJobs


@dataclass(frozen=True)
class Right:
    """Verbs on one kind of object.

    Attributes:
        verbs: such as `get`.
        group: API group; empty for the core.
        resource: plural, with a subresource behind a slash.
        namespace: of the objects; empty for all of the cluster.
        name: of the only object; empty for all.
    """

    verbs: tuple[str, ...]
    group: str
    resource: str
    namespace: str = RUNS
    name: str = ""


@dataclass(frozen=True)
class AccountRights:
    """Who needs rights, and what grants them."""

    namespace: str
    name: str
    rights: tuple[Right, ...]
    fix: str

    @property
    def user(self) -> str:
        """The name under which Kubernetes knows the account."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


_POD_CREATOR = (
    Right(("create", "delete", "get", "list", "patch", "watch"), "", "pods"),
    Right(("get",), "", "pods/log"),
    Right(("get", "list", "watch"), "", "events"),
)
_LAUNCHER = (
    Right(("get",), "", "configmaps", name="kfp-launcher"),
    Right(("get",), "", "secrets", name="mlpipeline-minio-artifact"),
    Right(("get", "list", "watch", "patch"), "", "pods"),
    Right(("create", "patch"), "argoproj.io", "workflowtaskresults"),
    Right(("list", "watch"), "argoproj.io", "workflowtasksets"),
    Right(("patch",), "argoproj.io", "workflowtasksets/status"),
)
_RETRAINING = (
    Right(("create", "get", "list"), "pipelines.kubeflow.org", "runs"),
    Right(("create", "get", "list"), "pipelines.kubeflow.org", "experiments"),
    Right(("get", "list"), "pipelines.kubeflow.org", "pipelines"),
    Right(("get", "list"), "pipelines.kubeflow.org", "pipelineversions"),
)
_RELEASE = (
    Right(("create", "delete", "get", "update"), "serving.kserve.io", "inferenceservices", MODELS),
    Right(("create", "delete", "get", "list", "update"), "serving.kserve.io", "llminferenceservices", MODELS),
    Right(("get",), "gateway.networking.k8s.io", "httproutes", MODELS),
    Right(("get",), "apps", "deployments", MODELS),
)
_TRAINING = (
    Right(("create", "delete", "get"), "trainer.kubeflow.org", "trainjobs"),
    Right(("list",), "", "pods"),
    Right(("get",), "", "pods/log"),
)
ACCOUNTS = (
    AccountRights(RUNS, SERVICE_ACCOUNT, _LAUNCHER + _RETRAINING, f"{INSTALL} (infra/kubernetes/base/accounts.yaml)"),
    AccountRights(
        RUNS,
        "nightshift-release",
        _LAUNCHER + _RELEASE,
        f"{INSTALL} (infra/cluster/namespaces/nightshift/release.yaml)",
    ),
    AccountRights(RUNS, TRAINER, _LAUNCHER + _TRAINING, f"{INSTALL} (infra/kubernetes/base/training.yaml)"),
    *(
        AccountRights("airflow", name, _POD_CREATOR, f"{INSTALL} (infra/cluster/namespaces/kubeflow/airflow.yaml)")
        for name in ("airflow-worker", "airflow-triggerer")
    ),
)
# who runs the doctor: what the checks read, and the pod of --in-pod
PERSON = (
    Right(("get", "list"), "", "nodes", ""),
    Right(("get",), "", "namespaces", ""),
    Right(("list",), "scheduling.k8s.io", "priorityclasses", ""),
    *(
        Right((verb,), "", resource)
        for resource, verb in (
            ("configmaps", "get"),
            ("endpoints", "get"),
            ("limitranges", "list"),
            ("persistentvolumeclaims", "get"),
            ("resourcequotas", "list"),
            ("secrets", "get"),
            ("serviceaccounts", "get"),
        )
    ),
    Right(("create", "delete", "get"), "", "pods"),
    Right(("get",), "", "pods/log"),
)


def check_own_rights(cluster: Kubernetes) -> Checks:
    """Check what the user needs for the other checks."""
    refused = [text for right in PERSON for text in _list_refused(cluster, right)]
    fix = "ask an administrator for the ClusterRole view, and for pods and secrets of kubeflow"
    yield judge("rights of yours", "all that the checks use", refused, "all of it", fix)


def check_pod_rights(cluster: Kubernetes, account: str = SERVICE_ACCOUNT) -> Checks:
    """Check, in a pod, the rights of its own account."""
    (own,) = (entry for entry in ACCOUNTS if (entry.namespace, entry.name) == (RUNS, account))
    yield _judge_account(own, [text for right in own.rights for text in _list_refused(cluster, right)])


def check_accounts(cluster: Kubernetes, site: Site) -> Checks:
    """Check, as a person who may ask for others, the rights of every account."""
    for account in ACCOUNTS:
        if account.namespace == "airflow" and not _has_namespace(cluster, "airflow"):
            yield skip(f"rights of {account.name}", "there is no namespace airflow: Airflow does not run here")
            continue
        if account.name == TRAINER and not site.has_kubeflow:
            yield skip(f"rights of {TRAINER}", f"{site.name} has no Kubeflow, whose Trainer it starts trainings with")
            continue
        try:
            refused = [text for right in account.rights for text in _list_refused(cluster, right, account.user)]
        except UserError:
            reason = "you may not create subjectaccessreviews; --in-pod asks as the account itself"
            yield skip(f"rights of {account.name}", reason)
            continue
        yield _judge_account(account, refused)


def _judge_account(account: AccountRights, refused: Sequence[str]) -> HealthCheck:
    name = f"rights of {account.name}"
    return judge(name, f"{len(account.rights)} kinds of objects", refused, "all of them", account.fix)


def _has_namespace(cluster: Kubernetes, name: str) -> bool:
    try:
        return bool(cluster.get(f"/api/v1/namespaces/{name}"))
    except MissingError:
        return False


def _list_refused(cluster: Kubernetes, right: Right, user: str = "") -> list[str]:
    """Return the refused verbs of a right, as phrases."""
    return [
        f"may not {verb} {right.resource}{f'.{right.group}' if right.group else ''}"
        f"{f' {right.name}' if right.name else ''}{f' in {right.namespace}' if right.namespace else ''}"
        for verb in right.verbs
        if not _is_allowed(cluster, right, verb, user)
    ]


def _is_allowed(cluster: Kubernetes, right: Right, verb: str, user: str) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": verb, "group": right.group, "resource": resource, "subresource": part}
    attributes |= {"namespace": right.namespace, "name": right.name}
    kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
    spec: Json = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    spec |= {"user": user} if user else {}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return bool(cluster.create(f"{REVIEWS}{kind.lower()}s", body)["status"]["allowed"])
