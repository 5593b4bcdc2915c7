"""The reader of compiled pipelines."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import dsl, kubernetes

from nightshift.runtime.errors import UserError
from pipelines import ir
from pipelines.commands import Commands
from tests.pipelines.samples import compiled, copy, shell, typed, write


def test_steps_come_in_an_order_in_which_they_can_run(tmp_path: Path) -> None:
    def pipeline() -> None:
        first = write(text="a")
        second = copy(taken=first.output)
        shell(script="true").after(second)

    names = [task.name for task in compiled(pipeline, tmp_path).tasks]
    assert names == ["write", "copy", "shell"]


def test_a_step_keeps_its_image_edges_retries_resources_and_caching(tmp_path: Path) -> None:
    def pipeline() -> None:
        first = write(text="a").set_retry(3, "5s", 1.5).set_memory_limit("2G").set_caching_options(False)
        copy(taken=first.output)

    first, second = compiled(pipeline, tmp_path).tasks
    assert (first.image, first.outputs) == ("alpine:3", {"output": "system.Artifact"})
    assert first.retry == ir.Retry(3, 5.0, 1.5)
    assert first.resources["resourceMemoryLimit"] == "2G"
    assert (first.cached, second.cached) == (False, True)
    assert second.artifacts == {"taken": (ir.ArtifactRef("write", "output"),)}


BARE = {
    "pipelineInfo": {"name": "bare"},
    "root": {"dag": {"tasks": {"a": {"componentRef": {"name": "c"}}}}},
    "components": {"c": {"executorLabel": "e"}},
    "deploymentSpec": {"executors": {"e": {"container": {"image": "alpine:3"}}}},
}


def loaded(
    folder: Path, task: Any = None, component: Any = None, executor: Any = None, more: Any = None
) -> ir.PipelineTask:
    """The step of a pipeline that says nothing but what it has to, and this."""
    spec: Any = deepcopy(BARE)
    spec["root"]["dag"]["tasks"]["a"] |= task or {}
    spec["components"]["c"] |= component or {}
    spec["deploymentSpec"]["executors"]["e"] = executor or spec["deploymentSpec"]["executors"]["e"]
    path = folder / "p.yaml"
    path.write_text(yaml.safe_dump_all([spec, *([more] if more else [])]))
    (only,) = ir.load(path).tasks
    return only


def test_what_a_step_does_not_say_is_nothing(tmp_path: Path) -> None:
    bare = ir.PipelineTask(
        "a", "alpine:3", (), {}, {}, {}, {}, (), ir.Retry(0, 0.0, 2.0), {}, {}, cached=False, loop=""
    )

    assert loaded(tmp_path) == bare
    empty = {"inputs": {}, "retryPolicy": {}, "cachingOptions": {}, "triggerPolicy": {}}
    assert loaded(tmp_path, empty, {"inputDefinitions": {}, "outputDefinitions": {}}, None, {"platforms": {}}) == bare


def test_a_parameter_that_a_step_is_not_given_has_its_default_or_none(tmp_path: Path) -> None:
    wanted = {"inputDefinitions": {"parameters": {"left": {"parameterType": "STRING"}}}}

    assert loaded(tmp_path, {"inputs": {}}, wanted).parameters == {"left": ("STRING", ir.Constant(None))}


def test_the_runs_name_is_an_argument_and_in_a_command_line_refused_since_kubeflow_leaves_it_there(
    tmp_path: Path,
) -> None:
    constant = {"runtimeValue": {"constant": ir.RUN_NAME}}
    wanted = {"inputDefinitions": {"parameters": {"run": {"parameterType": "STRING"}}}}

    step = loaded(tmp_path, {"inputs": {"parameters": {"run": constant}}}, wanted)
    assert step.parameters == {"run": ("STRING", ir.Constant(ir.RUN_NAME))}
    assert Commands("/runs/first", {}).fill(step, "parameter", "run") == "first"
    with pytest.raises(UserError, match="a placeholder the engines do not fill in"):
        loaded(tmp_path, executor={"container": {"image": "alpine:3", "args": [ir.RUN_NAME]}})


def test_all_that_a_step_says_is_read(tmp_path: Path) -> None:
    artifact = {"taskOutputArtifact": {"producerTask": "before", "outputArtifactKey": "output"}}
    parameters = {"given": {"runtimeValue": {"constant": 1.0}}, "named": {"componentInputParameter": "date"}}
    types = {name: {"parameterType": "STRING"} for name in parameters}
    title = {"artifactType": {"schemaTitle": "system.Model"}}
    container = {
        "image": "alpine:3",
        "command": ["sh"],
        "args": ["-c"],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "resources": {"cpuLimit": 1.0},
    }
    executors = {"e": {"secretAsEnv": []}}

    assert loaded(
        tmp_path,
        {
            "inputs": {"parameters": parameters, "artifacts": {"taken": artifact}},
            "retryPolicy": {"maxRetryCount": 3, "backoffDuration": "5s", "backoffFactor": 1.5},
            "cachingOptions": {"enableCache": True},
        },
        {
            "inputDefinitions": {"parameters": types | {"left": {"parameterType": "STRING", "defaultValue": "x"}}},
            "outputDefinitions": {"artifacts": {"output": title}},
        },
        {"container": container},
        {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}},
    ) == ir.PipelineTask(
        "a",
        "alpine:3",
        ("sh", "-c"),
        {"HOME": "/tmp"},
        {
            "given": ("STRING", ir.Constant(1.0)),
            "named": ("STRING", ir.Reference("date")),
            "left": ("STRING", ir.Constant("x")),
        },
        {"taken": (ir.ArtifactRef("before", "output"),)},
        {"output": "system.Model"},
        (),
        ir.Retry(3, 5.0, 1.5),
        {"cpuLimit": 1.0},
        {"secretAsEnv": []},
        cached=True,
        loop="",
    )


def test_parameters_are_rendered_by_their_type(tmp_path: Path) -> None:
    def pipeline(whole: int = 7, mapping: dict[str, Any] = {"b": 1, "a": [True]}) -> None:  # noqa: B006
        typed(whole=whole, real=2.0, flag=True, mapping=mapping, items=["x", 1])

    this = compiled(pipeline, tmp_path)
    (task,) = this.tasks

    def fill(kind: str, name: str) -> str:
        kfp_type, source = task.parameters[name]
        value = source.value if isinstance(source, ir.Constant) else this.parameters[source.name].default
        return ir.text(value, kfp_type)

    assert ir.argv(task, fill) == ["echo", "7", "2", "true", '{"a": [true], "b": 1}', '["x", 1]']


def test_large_integers_keep_their_digits() -> None:
    assert ir.text("7", "STRING") == "7"
    assert ir.text(2**53, "NUMBER_INTEGER") == "9007199254740992"
    assert ir.text(7.0, "NUMBER_INTEGER") == "7"
    assert ir.text(0.25, "NUMBER_DOUBLE") == "0.25"


def test_kubernetes_options_of_the_second_document_are_kept(tmp_path: Path) -> None:
    def pipeline() -> None:
        kubernetes.add_toleration(shell(script="true"), key="nvidia.com/gpu", operator="Exists")

    (task,) = compiled(pipeline, tmp_path).tasks
    assert task.kubernetes["tolerations"][0]["key"] == "nvidia.com/gpu"


def conditional(flag: str = "x") -> None:
    with dsl.If(flag == "x"):
        shell(script="true")


@dsl.container_component
def numbered(number: int, taken: dsl.Input[dsl.Artifact], output: dsl.Output[dsl.Artifact]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["sh"], args=[number, taken.uri, output.uri])


@dsl.container_component
def collect(taken: dsl.Input[list[dsl.Artifact]]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["cat"], args=[dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER])


def counting() -> None:
    first = write(text="a")
    with dsl.ParallelFor([*range(11)]) as number:
        step = numbered(number=number, taken=first.output).set_retry(3, "5s", 1.5)
    collect(taken=dsl.Collected(step.output))


def test_a_loop_over_numbers_is_its_step_once_for_each_and_what_collects_them_takes_all(tmp_path: Path) -> None:
    pipeline = compiled(counting, tmp_path)
    first, *steps, last = pipeline.tasks

    names = [f"numbered-{number}" for number in range(11)]
    assert [step.name for step in steps] == names
    assert [step.parameters["number"] for step in steps] == [("NUMBER_INTEGER", ir.Constant(n)) for n in range(11)]
    alike = {(step.loop, step.needs, step.retry, step.artifacts["taken"][0]) for step in steps}
    assert alike == {("numbered", ("write",), ir.Retry(3, 5.0, 1.5), ir.ArtifactRef("write", "output"))}
    assert (first.loop, last.loop, last.needs) == ("", "", tuple(names))
    assert last.artifacts == {"taken": tuple(ir.ArtifactRef(name, "output") for name in names)}
    inputs = json.loads(Commands("/runs/first", {}).argv(last)[-1])["inputs"]["artifacts"]["taken"]["artifacts"]
    assert [artifact["uri"] for artifact in inputs] == [f"/runs/first/{name}/output" for name in names]


def looping() -> None:
    with dsl.ParallelFor(["a", "b"]) as item:
        shell(script=item)


def skipping() -> None:
    first = write(text="a")
    with dsl.ParallelFor([1, 2]) as number:
        numbered(number=number, taken=first.output)


def bounded() -> None:
    first = write(text="a")
    with dsl.ParallelFor([0, 1], parallelism=1) as number:
        numbered(number=number, taken=first.output)


def chained() -> None:
    first = write(text="a")
    with dsl.ParallelFor([0, 1]) as number:
        copy(taken=numbered(number=number, taken=first.output).output)


def nested() -> None:
    first = write(text="a")
    with dsl.ParallelFor([0, 1]), dsl.ParallelFor([0, 1]) as number:
        numbered(number=number, taken=first.output)


def conditional_inside(flag: str = "x") -> None:
    with dsl.ParallelFor([0, 1]) as number, dsl.If(number == 1):
        shell(script=flag)


def of_a_parameter(numbers: list = [0, 1]) -> None:  # noqa: B006
    first = write(text="a")
    with dsl.ParallelFor(numbers) as number:
        numbered(number=number, taken=first.output)


def exiting() -> None:
    with dsl.ExitHandler(shell(script="true")):
        shell(script="false")


def forgiving() -> None:
    first = write(text="a")
    shell(script="true").after(first).ignore_upstream_failure()


def importing() -> None:
    copy(taken=dsl.importer(artifact_uri="gs://b/x", artifact_class=dsl.Artifact).output)


def jinja() -> None:
    shell(script="echo {{ ds }}")


@pytest.mark.parametrize(
    ("function", "feature"),
    [
        (conditional, "condition"),
        *((loop, "loop") for loop in (looping, skipping, bounded, chained, nested, conditional_inside, of_a_parameter)),
        (exiting, "ExitHandler|nested"),
        (forgiving, "ignore_upstream_failure"),
        (importing, "importer"),
        (jinja, "Jinja"),
    ],
)
def test_what_the_engines_cannot_run_is_refused_by_name(function: Any, feature: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=feature):
        compiled(function, tmp_path)


@pytest.mark.parametrize(
    ("declared", "feature"),
    [
        ({"component": {"dag": {}}}, "a nested pipeline, a condition or a loop"),
        ({"task": {"triggerPolicy": {"condition": "x"}}}, "If / Elif / Else"),
        ({"task": {"triggerPolicy": {"strategy": "x"}}}, "ExitHandler or ignore_upstream_failure"),
        ({"task": {"parameterIterator": {}}}, "ParallelFor"),
        ({"task": {"artifactIterator": {}}}, "ParallelFor"),
        ({"task": {"iteratorPolicy": {}}}, "ParallelFor"),
        ({"component": {"outputDefinitions": {"parameters": {}}}}, "an output parameter (OutputPath)"),
        ({"executor": {"importer": {}}}, "an importer"),
        (
            {"task": {"inputs": {"artifacts": {"taken": {}}}}},
            "artifact 'taken' that is not another step's output",
        ),
        (
            {
                "task": {"inputs": {"parameters": {"given": {"taskOutputParameter": {}}}}},
                "component": {"inputDefinitions": {"parameters": {"given": {"parameterType": "STRING"}}}},
            },
            "parameter 'given' from another step's output (taskOutputParameter)",
        ),
        (
            {
                "task": {"inputs": {"parameters": {"given": {"runtimeValue": {"constant": "{% raw %}"}}}}},
                "component": {"inputDefinitions": {"parameters": {"given": {"parameterType": "STRING"}}}},
            },
            "a placeholder or Jinja marker in the constant of 'given'",
        ),
        *(
            ({"executor": {"container": {"image": "alpine:3", "args": [word]}}}, feature)
            for word, feature in [
                (
                    "{{$.inputs.artifacts['taken'].path}}",
                    "a placeholder the engines do not fill in, or one inside a longer word: "
                    "\"{{$.inputs.artifacts['taken'].path}}\"",
                ),
                (
                    "x={{$.pipeline_job_name}}",
                    "a placeholder the engines do not fill in, or one inside a longer word: "
                    "'x={{$.pipeline_job_name}}'",
                ),
                ('{"Concat": ["a", "b"]}', "Concat or IfPresent"),
                ('{"IfPresent": {}}', "Concat or IfPresent"),
                ({}, "Concat or IfPresent"),
                ("{% raw %}", "a Jinja marker in a constant: '{% raw %}'"),
            ]
        ),
    ],
)
def test_each_thing_that_only_kubeflow_runs_is_named_with_its_step(declared: Any, feature: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        loaded(tmp_path, **declared)

    assert str(refused.value) == (
        f"step 'a' uses {feature}, which only Kubeflow runs; see 'The subset of KFP' in docs/concepts/architecture.md"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "does not exist"), ("a: [", "not YAML"), ("a: 1", "not a compiled pipeline"), ("", "not a compiled")],
)
def test_a_file_that_is_no_pipeline_is_one_clear_line(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        ir.load(path)
