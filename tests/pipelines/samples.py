"""Small pipelines of shell commands, compiled by the real kfp, and the command line in this process."""

import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import compiler, dsl

from pipelines import configs, ir
from pipelines.cli.__main__ import main, parse_command_line
from pipelines.compiling import compile_pipelines
from pipelines.engines.local.run import StepOutcome
from pipelines.environments import Site


class Silent:
    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.logs: dict[str, Path] = {}

    def started(self, task: ir.PipelineTask, log: Path) -> None:
        self.logs[task.name] = log

    def finished(self, task: ir.PipelineTask, outcome: StepOutcome) -> None:
        self.states[task.name] = outcome.state


WRITE = 'mkdir -p "$(dirname "$1")" && printf %s "$0" > "$1"'
COPY = 'cp "$0" "$1"'
FOLDER = 'mkdir -p "$1/deep" && printf %s "$0" > "$1/deep/file"'


@dsl.container_component
def write(text: str, output: dsl.Output[dsl.Artifact]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["sh", "-c", WRITE], args=[text, output.uri])


@dsl.container_component
def copy(taken: dsl.Input[dsl.Artifact], output: dsl.Output[dsl.Artifact]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["sh", "-c", COPY], args=[taken.uri, output.uri])


@dsl.container_component
def fetch(source: str, output: dsl.Output[dsl.Artifact]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["sh", "-c", COPY], args=[source, output.uri])


@dsl.container_component
def folder(text: str, output: dsl.Output[dsl.Artifact]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["sh", "-c", FOLDER], args=[text, output.uri])


@dsl.container_component
def shell(script: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["sh", "-c"], args=[script])


@dsl.container_component
def dated(script: str, date: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["sh", "-c"], args=[script, date])


@dsl.container_component
def typed(whole: int, real: float, flag: bool, mapping: dict[str, Any], items: list[Any]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=["echo"], args=[whole, real, flag, mapping, items])


@dsl.container_component
def inspect(taken: dsl.Input[dsl.Artifact], output: dsl.Output[dsl.Artifact]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(
        image="alpine:3",
        command=["sh", "-c", WRITE],
        args=[dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER, output.uri],
    )


def one_step(script: str, retries: int = 0) -> Callable[[], None]:
    """A pipeline of a shell script."""

    def pipeline() -> None:
        step = shell(script=script)
        if retries:
            step.set_retry(retries, "0s", 1.0)

    return pipeline


def one_step_a_day(script: str) -> Callable[[str], None]:
    """A pipeline of a shell script, whose runs are of days."""

    def pipeline(date: str) -> None:
        shell(script=script)

    return pipeline


def compiled(function: Callable[..., Any], folder: Path) -> ir.Pipeline:
    """Compile a pipeline function and read the YAML."""
    return ir.load(compiled_file(function, folder))


def compiled_file(function: Callable[..., Any], folder: Path) -> Path:
    """Compile a pipeline function to a YAML file."""
    path = folder / "pipeline.yaml"
    compiler.Compiler().compile(dsl.pipeline(name="sample")(function), str(path))
    return path


def run_of(pipeline: Callable[..., None], folder: Path, *more: str) -> list[str]:
    """The words that run a pipeline in a workspace."""
    return ["run", str(compiled_file(pipeline, folder)), "--workspace", str(folder), *more]


def config_file(folder: Path, name: str = "fraud", **sections: Any) -> str:
    """Write a shipped config with some fields of some sections replaced, and return the file's path."""
    value = configs.load(name)
    for section, fields in sections.items():
        value[section] = value.get(section, {}) | fields
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(value))
    return str(path)


def shipped(site: Site, folder: Path) -> list[Path]:
    """Compile the pipelines for a site, and return their files."""
    return list(compile_pipelines(site, folder))


def command(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `nightshift` in this process, which has imported what it needs."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["nightshift", *words])
        for name, value in environment.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def called(*words: str) -> int:
    """Run a command of `nightshift` in this process; its errors are raised."""
    args = parse_command_line(words)
    return int(args.command(args))
