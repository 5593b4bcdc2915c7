"""What is laid over a pipeline is what kfp and kfp-kubernetes make of the same placement."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl, kubernetes

from nightshift.cluster import ACCOUNT
from nightshift.runtime.telemetry import PIPELINE
from pipelines import documents
from pipelines.environments import GPU, GRACE, LOCAL, ROLES, SHARED_MEMORY, SITES, Placement, Role
from pipelines.placement import place_steps
from tests.pipelines.samples import compiled_file

COMPONENTS = {Role.LIGHT: "drift"} | {role: component for component, role in ROLES.items()}


def pipeline(component: str, *finish: Callable[[dsl.PipelineTask], None]) -> Callable[[str], None]:
    """A pipeline of a component's step, which `finish` is called with."""

    @dsl.container_component
    def step() -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="x", command=["python", "-m", f"components.{component}"], args=["x"])

    def define(date: str) -> None:
        task = step()
        for change in finish:
            change(task)

    return define


def container(task: dsl.PipelineTask, wanted: Placement) -> None:
    task.set_container_image(wanted.image)
    task.set_cpu_request(wanted.cpu_request)
    task.set_memory_request(wanted.memory_request).set_memory_limit(wanted.memory_limit)
    if wanted.cpu_limit:
        task.set_cpu_limit(wanted.cpu_limit)
    if wanted.gpus:
        task.set_accelerator_type(GPU).set_accelerator_limit(wanted.gpus)
    for name, value in {**wanted.environment, PIPELINE: "sample"}.items():
        task.set_env_variable(name, value)
    if wanted.retry.count:
        task.set_retry(wanted.retry.count, f"{wanted.retry.seconds:.0f}s", wanted.retry.factor)


def nodes(task: dsl.PipelineTask, wanted: Placement) -> None:
    for key, value in wanted.nodes.items():
        kubernetes.add_node_selector(task, key, value)
    for taint in wanted.tolerations:
        kubernetes.add_toleration(task, taint.key, "Equal", taint.value, "NoSchedule")
    for key, value in wanted.labels.items():
        kubernetes.add_pod_label(task, key, value)


def pod(task: dsl.PipelineTask, wanted: Placement) -> None:
    for key, value in {GRACE: str(wanted.grace or ""), ACCOUNT: wanted.account}.items():
        if value:
            kubernetes.add_pod_annotation(task, key, value)
    for volume in wanted.volumes:
        kubernetes.mount_pvc(task, volume.claim, volume.path)
    for secret in wanted.secrets:
        kubernetes.use_secret_as_env(task, secret.name, dict(secret.keys), optional=secret.is_optional)
    if wanted.shared_memory:
        kubernetes.empty_dir_mount(task, "shared-memory", SHARED_MEMORY, "Memory", wanted.shared_memory)
    if wanted.timeout:
        kubernetes.set_timeout(task, wanted.timeout)


@pytest.mark.slow
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("environment", [LOCAL.name, "aws", "gcp-try"])
def test_a_step_is_placed_as_kfp_would_have_compiled_it(environment: str, role: Role, tmp_path: Path) -> None:
    wanted = SITES[environment].placements[role]

    def compiled(*finish: Callable[[dsl.PipelineTask], None]) -> list[dict[str, Any]]:
        return documents.read(compiled_file(pipeline(COMPONENTS[role], *finish), tmp_path))

    theirs = compiled(*(lambda task, give=give: give(task, wanted) for give in (container, nodes, pod)))
    assert place_steps(compiled()[0], SITES[environment]) == theirs
    # what was placed elsewhere before is replaced
    assert place_steps(theirs[0], SITES[environment]) == theirs
