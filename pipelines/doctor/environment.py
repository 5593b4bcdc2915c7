"""All checks of an environment, from a person's machine or from a pod."""

from collections.abc import Callable
from functools import partial

from nightshift.contracts.health import CheckStatus, HealthCheck, HealthReport
from nightshift.runtime.errors import UnavailableError, UserError
from pipelines.doctor import access, images, limits, nodes, objects, services, stores
from pipelines.doctor.findings import Checks, failure, run_checks, skip, success, unavailable
from pipelines.doctor.kubernetes import Kubernetes
from pipelines.doctor.pod import diagnose_in_pod
from pipelines.environments import KUBEFLOW_INSIDE, Site

Subject = tuple[str, Callable[[], Checks]]


def diagnose(
    cluster: Kubernetes, site: Site, registry: images.ImageRegistry, endpoint: str, fetch: services.Fetch
) -> HealthReport:
    """Return the state of an environment, as seen from a person's machine.

    Args:
        cluster: its Kubernetes.
        site: what its steps get.
        registry: where images are.
        endpoint: URL of Kubeflow's API from here; empty: through the Kubernetes API.
        fetch: asks a URL outside the cluster.
    """
    inside = services.proxy_fetch(cluster)
    kubeflow = (fetch, endpoint) if endpoint else (inside, KUBEFLOW_INSIDE)
    subjects: list[Subject] = [
        ("clock", partial(services.check_clock, cluster)),
        ("rights of yours", partial(access.check_own_rights, cluster)),
        ("rights of accounts", partial(access.check_accounts, cluster, site)),
        ("namespaces", partial(objects.check_namespaces, cluster)),
        ("accounts", partial(objects.check_accounts, cluster)),
        ("claims", partial(objects.check_claims, cluster, site)),
        ("secrets", partial(objects.check_secrets, cluster, site)),
        ("priority classes", partial(objects.check_priorities, cluster)),
        ("runtime of TrainJobs", partial(objects.check_runtime, cluster, site)),
        ("nodes", partial(nodes.check_nodes, cluster, site)),
        ("quotas", partial(limits.check_quotas, cluster, site)),
        ("limit ranges", partial(limits.check_limits, cluster, site)),
        ("services", partial(services.check_endpoints, cluster, site)),
        _of_kubeflow(site, "Kubeflow Pipelines", partial(services.check_kubeflow, *kubeflow)),
        ("Airflow", partial(services.check_airflow, inside)),
        ("GPU metrics", partial(services.check_gpu_metrics, inside)),
        ("images", partial(images.check_images, cluster, site, registry)),
        _of_kubeflow(site, "pipeline root", partial(stores.check_pipeline_root, cluster)),
    ]
    return _report(cluster, site, subjects, in_pod=False)


def diagnose_inside(cluster: Kubernetes, site: Site, connect: Callable[[str, int], None]) -> HealthReport:
    """Return the state of an environment, as seen from a pod of it."""
    subjects: list[Subject] = [
        ("clock", partial(services.check_clock, cluster)),
        ("rights of the pod", partial(access.check_pod_rights, cluster)),
        ("names", partial(services.check_names, site, connect)),
        ("state", partial(stores.check_state, site)),
        _of_kubeflow(site, "pipeline root", partial(stores.check_pipeline_root, cluster)),
    ]
    return _report(cluster, site, subjects, in_pod=True)


def add_pod(report: HealthReport, cluster: Kubernetes, site: Site) -> HealthReport:
    """Return a report with what a pod of the environment sees, if the API answers."""
    if report.checks[0].status != CheckStatus.OK:
        return report
    checks = run_checks("start", lambda: iter(diagnose_in_pod(cluster, site).checks))
    inside = [check.model_copy(update={"name": f"in a pod: {check.name}"}) for check in checks]
    return report.model_copy(update={"in_pod": True, "checks": [*report.checks, *inside]})


def _of_kubeflow(site: Site, name: str, check: Callable[[], Checks]) -> Subject:
    """Return a check of Kubeflow, which is skipped in an environment without it."""
    return name, check if site.has_kubeflow else lambda: iter([skip(name, f"{site.name} has no Kubeflow")])


def _report(cluster: Kubernetes, site: Site, subjects: list[Subject], in_pod: bool) -> HealthReport:
    """Run all checks, unless the API does not answer: each would wait for it in vain."""
    connection = _check_connection(cluster)
    if connection.status == CheckStatus.OK:
        checks = [check for subject in subjects for check in run_checks(*subject)]
    else:
        checks = [skip(name, "the Kubernetes API does not answer us") for name, _ in subjects]
    return HealthReport(environment=site.name, in_pod=in_pod, checks=[connection, *checks])


def _check_connection(cluster: Kubernetes) -> HealthCheck:
    name = "Kubernetes API"
    try:
        return success(name, f"version {cluster.get('/version').get('gitVersion', '')}")
    except UnavailableError as error:
        return unavailable(name, str(error), "kubectl cluster-info; on AWS infra/aws/connect.sh forwards a port to it")
    except UserError as error:
        fix = "log in again: aws eks update-kubeconfig, or gcloud container clusters get-credentials"
        return failure(name, str(error), "an answer", fix)
