"""The reader of compiled pipelines."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import dsl, kubernetes

from components.common.errors import UserError
from pipelines import ir
from tests.pipelines.samples import compiled, compiled_file, copy, shell, typed, write


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
    assert (first.image, first.outputs) == ("alpine:3", {"made": "system.Artifact"})
    assert first.retry == ir.Retry(3, 5.0, 1.5)
    assert first.resources["resourceMemoryLimit"] == "2G"
    assert (first.cached, second.cached) == (False, True)
    assert second.artifacts == {"taken": ir.Artifact("write", "made")}


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


def looping() -> None:
    with dsl.ParallelFor(["a", "b"]) as item:
        shell(script=item)


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
        (looping, "loop"),
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
    ("word", "feature"),
    [
        ("{{$.inputs.artifacts['taken'].path}}", "placeholder"),
        ("x={{$.inputs.artifacts['taken'].uri}}", "inside a longer word"),
        ('{"Concat": ["a", "b"]}', "Concat"),
        ("{% raw %}", "Jinja"),
    ],
)
def test_words_that_no_engine_fills_in_are_refused(word: str, feature: str, tmp_path: Path) -> None:
    def pipeline() -> None:
        copy(taken=write(text="a").output)

    path = compiled_file(pipeline, tmp_path)
    spec = yaml.safe_load(path.read_text())
    spec["deploymentSpec"]["executors"]["exec-copy"]["container"]["args"] = [word]
    path.write_text(yaml.safe_dump(spec))
    with pytest.raises(UserError, match=feature):
        ir.load(path)


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
