"""What is peculiar to Vertex AI; the rest is in `test_targets.py`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.cloud import aiplatform_v1 as api

from components.release.targets import rollout
from nightshift.runtime.errors import UserError
from tests.components.release.targets.versions import Fleet
from tests.components.release.targets.vertex_ai import VertexAI, platform


@pytest.fixture
def project(fleet: Fleet, tmp_path: Path) -> Iterator[VertexAI]:
    with platform(fleet, tmp_path) as project:
        yield project


def test_a_model_of_our_name_with_other_content_is_refused_and_models_without_our_label_stay(
    project: VertexAI, fleet: Fleet
) -> None:
    rollout(project.target(), fleet.split(v1=1))
    (model,) = project.models.values()
    model.container_spec.image_uri = "another"
    project.endpoints.clear()
    with pytest.raises(UserError, match=r"model 'fraud-v1-\w+' exists with other content; delete it"):
        project.target().apply(fleet.split(v1=1))
    assert model.container_spec.image_uri == "another"
    model.labels = {"team": "somebody"}
    project.target().clean(())
    assert list(project.models.values()) == [model]


def test_a_machine_with_a_gpu_is_asked_for_by_its_type(project: VertexAI, fleet: Fleet) -> None:
    rollout(project.target(**project.gpu), fleet.split(v1=1))
    (deployed,) = project.endpoint.deployed_models
    machine = deployed.dedicated_resources.machine_spec
    wanted = ("g2-standard-4", api.AcceleratorType.NVIDIA_L4, 1)
    assert (machine.machine_type, machine.accelerator_type, machine.accelerator_count) == wanted
