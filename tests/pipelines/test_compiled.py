"""The committed YAML and what it starts."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

from nightshift.cluster import ACCOUNT
from nightshift.cluster.kubeflow import Definition
from nightshift_testkit.kubeflow_runs import launcher, spec
from pipelines import arguments, configs, ir
from pipelines.compiling import PIPELINES
from pipelines.environments import AWS, GCP, LOCAL, SITES, Site
from pipelines.ir import Retry
from tests.pipelines.samples import shipped

Compile = Callable[[Site, Path], list[Path]]


@pytest.fixture(scope="module")
def compiled() -> Iterator[Compile]:
    """Compile in a process of its own: at each call kfp looks at the whole stack, and at every module there is."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield lambda site, folder: pool.submit(shipped, site, folder).result()


@pytest.mark.slow
def test_the_committed_yaml_is_what_the_pipelines_compile_to(compiled: Compile, tmp_path: Path) -> None:
    fresh = {path.name: path.read_text() for path in compiled(LOCAL, tmp_path)}

    assert fresh == {path.name: path.read_text() for path in (arguments.COMPILED / LOCAL.name).iterdir()}, (
        "run: make compile"
    )


def test_a_pipeline_that_was_compiled_for_an_environment_goes_before_what_is_placed_now(
    compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(arguments.COMPILED / LOCAL.name, tmp_path / LOCAL.name)
    compiled(AWS.with_trainjobs(), tmp_path)
    monkeypatch.setattr(arguments, "COMPILED", tmp_path)

    (training,) = (task for task in arguments.load_compiled("training", "aws").tasks if task.name == "training")

    assert training.kubernetes["podMetadata"]["annotations"] == {ACCOUNT: "nightshift-training"}


@pytest.mark.slow
def test_how_often_a_step_is_tried_is_its_places_to_say_alone(compiled: Compile, tmp_path: Path) -> None:
    never = replace(LOCAL, placements={role: replace(usual, retry=Retry()) for role, usual in LOCAL.placements.items()})

    tasks = [task for path in compiled(never, tmp_path) for task in ir.load(path).tasks]

    assert [task.name for task in tasks if task.retry.count] == []


@pytest.mark.slow
def test_with_trainjobs_the_training_step_alone_is_a_light_one_that_may_take_a_day(
    compiled: Compile, tmp_path: Path
) -> None:
    path = next(path for path in compiled(AWS.with_trainjobs(), tmp_path) if path.stem == "training")
    pipelines = ir.load(path), arguments.load_compiled("training", "aws")
    tasks, usual = ({task.name: task for task in pipeline.tasks} for pipeline in pipelines)

    step, light = tasks.pop("training"), tasks["evaluation"]
    assert (step.image, step.resources) == (light.image, light.resources)
    assert step.kubernetes["nodeSelector"] == light.kubernetes["nodeSelector"]
    assert step.kubernetes["podMetadata"]["annotations"] == {ACCOUNT: "nightshift-training"}
    assert "tolerations" not in step.kubernetes and step.kubernetes["activeDeadlineSeconds"] == "86400"
    before = usual.pop("training")
    assert (step.command, step.retry, step.environment) == (before.command, before.retry, before.environment)
    assert tasks == usual


@pytest.mark.slow
def test_with_feature_shards_kubeflow_and_the_other_engines_run_a_step_for_each_before_the_features(
    compiled: Compile, tmp_path: Path
) -> None:
    files = {path.stem: path for path in compiled(replace(AWS, feature_shards=2), tmp_path)}
    for name in ("training", "scoring", "monitoring", "release"):
        pipeline, usual = ir.load(files.pop(name)), arguments.load_compiled(name, "aws")
        tasks, before = ({task.name: task for task in one.tasks} for one in (pipeline, usual))

        shards, features, alone = [tasks.pop(f"features-shard-{n}") for n in range(2)], tasks["features"], "features"
        assert features.needs == ("features-shard-0", "features-shard-1", "ingestion")
        for shard in shards:
            assert (shard.loop, shard.needs, shard.outputs) == ("features-shard", ("ingestion",), features.outputs)
            placed = [(t.image, t.resources, t.kubernetes, t.retry, t.environment) for t in (shard, before[alone])]
            assert placed[0] == placed[1]
        assert tasks == before | {alone: replace(before[alone], needs=features.needs, artifacts=features.artifacts)}
        check_on_kubeflow(pipeline, {"--shard": ["0", "1"], "--shards": ["2", "2"]})
    for name, path in files.items():
        assert ir.load(path) == arguments.load_compiled(name, "aws")


def check_on_kubeflow(pipeline: ir.Pipeline, flags: dict[str, list[str]]) -> None:
    """Read a pipeline by Kubeflow's own schema, and see that its steps are given these flags."""
    json_format.ParseDict(pipeline.documents[0], PipelineSpec())
    whole = Definition.read(pipeline.yaml).fields["pipeline_spec"]
    facts = spec.RunFacts(pipeline.name, "run", "the-run", dict.fromkeys(pipeline.parameters, "given"), "s3://bucket/x")
    walked = [(task, inputs, spec.command(task, inputs)) for task, inputs in spec.walked(whole, facts)]
    for flag, values in flags.items():
        assert [words[words.index(flag) + 1] for _, _, words in walked if flag in words] == values
    (inputs,) = [inputs["inputs"]["artifacts"] for task, inputs, _ in walked if task.name == "features"]
    assert [artifact["name"] for artifact in inputs["computed"]["artifacts"]] == ["features", "features"]
    assert len({artifact["uri"] for artifact in inputs["computed"]["artifacts"]}) == 2


@pytest.mark.parametrize("name", sorted(set(PIPELINES) - {"nightly"}))
def test_reporting_comes_last_and_is_given_what_every_step_before_it_has_made(name: str) -> None:
    *steps, reporting = arguments.load_compiled(name).tasks
    assert reporting.name == "reporting"
    assert {artifact.task for (artifact,) in reporting.artifacts.values()} == {task.name for task in steps}


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("name", PIPELINES)
def test_steps_that_depend_on_more_than_their_arguments_are_never_cached(name: str, site: str) -> None:
    cached = {task.name for task in arguments.load_compiled(name, site).tasks if task.cached}
    on_training = {"features", "training", "profiling", "optimization", "evaluation"}
    assert cached == {"training": on_training, "ingestion": set(), "nightly": set(), "loadtest": set()}.get(
        name, {"features"}
    )


@pytest.mark.parametrize("site", [AWS.name, GCP.name])
@pytest.mark.parametrize("name", PIPELINES)
def test_kubeflow_leaves_no_placeholder_in_a_command_line(name: str, site: str) -> None:
    whole = Definition.read(arguments.load_compiled(name, site).yaml).fields["pipeline_spec"]
    parameters = dict.fromkeys(arguments.load_compiled(name, site).parameters, "given")
    facts = spec.RunFacts(name, "run-1", "the-run", parameters, "s3://bucket/pipelines")

    for task, inputs in spec.walked(whole, facts):
        words = launcher.filled(spec.command(task, inputs), inputs)
        assert [word for word in words if "{{$" in word] == []
        assert "--run" not in words or words[words.index("--run") + 1] == "the-run"


def test_a_step_of_the_monitoring_carries_its_request_out() -> None:
    (last,) = [task for task in arguments.load_compiled("monitoring").tasks if task.name == "retraining"]
    assert last.needs == ("monitoring",)
    assert last.parameters["pipeline"][1] == ir.Constant("training")


@pytest.mark.parametrize("name", configs.names())
def test_every_shipped_config_is_valid(name: str) -> None:
    assert configs.load(name)["name"] == name
