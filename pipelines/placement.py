"""Passes to kfp what a step gets; see `pipelines.environments.Placement`."""

from kfp import kubernetes
from kfp.dsl import PipelineTask

from nightshift.cluster import ACCOUNT
from pipelines.environments import GPU, GRACE, SHARED_MEMORY, Placement, Role, Site


def apply_placement(site: Site, role: Role, *steps: PipelineTask) -> None:
    """Give the steps of a pipeline, while it is traced, what their role gets at a site."""
    placement = site.placements[role]
    for step in steps:
        _container(step, placement)
        _pod(step, placement)
        _time(step, placement)


def always_run(*steps: PipelineTask) -> None:
    """Keep steps out of the cache: its key knows their arguments, not the data or the registry behind them."""
    for step in steps:
        step.set_caching_options(False)


def _container(step: PipelineTask, placement: Placement) -> None:
    step.set_container_image(placement.image)
    step.set_cpu_request(placement.cpu_request)
    step.set_memory_request(placement.memory_request).set_memory_limit(placement.memory_limit)
    if placement.cpu_limit:
        step.set_cpu_limit(placement.cpu_limit)
    if placement.gpus:
        step.set_accelerator_type(GPU).set_accelerator_limit(placement.gpus)
    for name, value in placement.environment.items():
        step.set_env_variable(name, value)
    retry = placement.retry
    if retry.count:
        step.set_retry(retry.count, f"{retry.seconds:.0f}s", retry.factor)


def _time(step: PipelineTask, placement: Placement) -> None:
    if placement.grace:
        kubernetes.add_pod_annotation(step, GRACE, str(placement.grace))
    if placement.timeout:
        kubernetes.set_timeout(step, placement.timeout)


def _pod(step: PipelineTask, placement: Placement) -> None:
    for key, value in placement.nodes.items():
        kubernetes.add_node_selector(step, key, value)
    for taint in placement.tolerations:
        kubernetes.add_toleration(step, taint.key, "Equal", taint.value, "NoSchedule")
    for key, value in placement.labels.items():
        kubernetes.add_pod_label(step, key, value)
    if placement.account:
        kubernetes.add_pod_annotation(step, ACCOUNT, placement.account)
    for volume in placement.volumes:
        kubernetes.mount_pvc(step, volume.claim, volume.path)
    for secret in placement.secrets:
        kubernetes.use_secret_as_env(step, secret.name, dict(secret.keys))
    if placement.shared_memory:
        kubernetes.empty_dir_mount(step, "shared-memory", SHARED_MEMORY, "Memory", placement.shared_memory)
