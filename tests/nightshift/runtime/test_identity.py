"""Which step of which run a process is."""

from argparse import Namespace

import pytest

from nightshift.runtime.context import StepContext
from nightshift.runtime.identity import StepIdentity, list_artifacts

UUID = "0af7651a-1111-4222-8333-b7ad6b716920"


def identify(*uris: str, **variables: str) -> StepIdentity | None:
    artifacts = {f"output{number}": {"artifacts": [{"uri": uri}]} for number, uri in enumerate(uris)}
    context = StepContext(Namespace(executor_input={"outputs": {"artifacts": artifacts}}))
    return StepIdentity.from_context(context, variables)


@pytest.mark.parametrize(
    ("uri", "root", "task"),
    [
        ("/srv/runs/fraud-training-2025-06-30/ingestion/events", "/srv/runs/fraud-training-2025-06-30", "ingestion"),
        ("s3://bucket/runs/night/features-shard-1/features", "s3://bucket/runs/night", "features-shard-1"),
        (f"gs://bucket/v2/training/{UUID}/drift/{UUID}/drift", f"gs://bucket/v2/training/{UUID}", "drift"),
        (f"minio://bucket/v2/training/{UUID}/drift/drift", f"minio://bucket/v2/training/{UUID}", "drift"),
    ],
)
def test_a_step_and_its_run_are_named_by_the_uri_of_its_output_on_every_engine(uri: str, root: str, task: str) -> None:
    step = identify(uri, NIGHTSHIFT_PIPELINE="training")

    assert step
    assert (step.run.root, step.task, step.job_name) == (root, task, f"training.{task}")


@pytest.mark.parametrize("uris", [(), ("",), ("model",)])
def test_a_process_without_outputs_of_a_run_is_no_step(uris: tuple[str, ...]) -> None:
    assert identify(*uris) is None


def test_an_artifact_without_a_uri_is_left_out() -> None:
    inputs = {"events": {"artifacts": [{"uri": "/a"}, {"name": "events"}]}, "model": {"artifacts": []}}

    assert list_artifacts({"inputs": {"artifacts": inputs}}, "inputs") == {"events": ["/a"], "model": []}
