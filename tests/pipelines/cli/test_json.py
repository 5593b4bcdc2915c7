"""`--json`: every command that prints a table prints one document of a committed schema instead."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nightshift.config.neural import Fit
from nightshift.contracts.__main__ import list_artifacts
from nightshift.contracts.__main__ import schema as schema_of
from nightshift.contracts.artifact import Artifact
from nightshift.contracts.verdict import Decision
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift_perf import limits
from nightshift_perf.cli import scale, tune
from nightshift_perf.replicas import Gradients, Process, ScalingCurve, ScalingMeasurement, ScalingSpec
from nightshift_perf.tuning import Speed, Tried, Tuned, TuningSetting, Variant, VariantComparison
from nightshift_testkit.processes import SECONDS, engine
from packages.perf.tests.traces.samples import Events, save
from pipelines.cli.__main__ import parse_command_line
from tests.pipelines.cli.test_commands import NAMES
from tests.pipelines.samples import called, command, compiled_file, one_step_a_day

# commands without --json -> the reason
NO_TABLE = {
    "approve": "prints a line",
    "cloud": "writes a file",
    "compile": "writes files",
    "config": "prints YAML, or a JSON Schema",
    "contract": "prints YAML, and what it leaves out",
    "debug-dump": "writes a file",
    "exporter": "serves metrics",
    "features": "prints lines of a config, with what they gain and cost",
    "init": "writes files",
    "llm convert": "writes a file",
    "llm quantize": "writes a file",
    "llm suite": "writes files",
    "loadtest": "shows a run; `show --json` prints it",
    "mcp": "answers with documents already",
    "notify": "prints a line for each receiver",
    "projects": "prints titles, pages and commands",
    "promote": "prints a line",
    "push": "prints a line",
    "repair": "prints lines",
    "report": "writes a file",
    "rollback": "prints a line",
    "serve": "becomes the server",
    "run": "shows a run; `show --json` prints it",
    "schedule": "prints lines",
    "stop": "prints a line",
    "ui": "serves pages, each with its document",
    "submit": "prints lines",
    "update": "shows what it changes of files",
}
NETWORK = ConfiguredNetwork("mlp", {"inputs": 3}, Fit(batch_size=8).model_dump(mode="json"))


def check(printed: str, schema: str) -> Any:
    """Return the only document on stdout, which is of a known schema."""
    document = json.loads(printed)
    jsonschema.validate(document, json.loads(schema_of(list_artifacts()[schema])))
    return document


def serialize(document: Artifact) -> str:
    return document.model_dump_json(indent=2)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_command_has_a_document_or_prints_no_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_command_line([*name.split(), "--help"])

    schemas = re.findall(r"docs/schemas/(\w+)\.json", capsys.readouterr().out)

    assert bool(schemas) == (name not in NO_TABLE)
    assert set(schemas) <= list_artifacts().keys()


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        ("models", "model_list"),
        ("release status", "release"),
        ("release start 3", "release"),
        ("costs", "run_costs"),
        ("costs fraud-1", "run_costs"),
        ("show fraud-1", "page"),
        ("gc", "removals"),
        ("gc --delete", "removals"),
    ],
)
def test_what_a_workspace_holds_is_printed_as_json(
    words: str, schema: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(*words.split(), "--workspace", str(workspace), "--json") == 0

    check(capsys.readouterr().out, schema)


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        ("costs --samples 1e9 --measured l4=5200", "cost_estimate"),
        ("perf plan --model bert-base --gpu h100-80gb --batch 256 --samples 1e6", "training_plan"),
        ("perf plan --published", "planner_accuracy"),
        ("perf plan --serve --model llama3-70b --rate 100", "serving_plan"),
    ],
)
def test_what_is_computed_is_printed_as_json(words: str, schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(*words.split(), "--json") == 0

    check(capsys.readouterr().out, schema)


def test_models_are_numbers_dates_and_the_champion(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called("models", "--workspace", str(workspace), "--json")

    first, second, _ = check(capsys.readouterr().out, "model_list")["versions"]
    assert (first["version"], first["champion"], first["live_since"]) == (1, False, None)
    assert (second["champion"], second["train_first"], second["metric_value"]) == (True, "2018-07-25", 0.6)


def test_costs_are_numbers_and_null_where_they_are_not_known(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called("costs", "--workspace", str(workspace), "--json")

    (run,) = check(capsys.readouterr().out, "run_costs")["runs"]
    assert (run["seconds"], run["usd"]) == (2.5, None)
    assert [(step["step"], step["usd"]) for step in run["steps"]] == [("training", 0.5), ("scoring", None)]


def test_progress_goes_to_stderr(tmp_path: Path) -> None:
    trace, output = str(tmp_path / "trace.json"), str(tmp_path / "out")
    save(tmp_path / "trace.json", Events().steps((0, 1000)).kernel("sgemm<float>", 0, 600, launched=(-5, 3)))

    done = command("perf", "profile", "--trace", trace, "--output", output, "--json")

    assert check(done.stdout, "trace_profile")["sources"] == [trace]
    assert f"reading {trace}" in done.stderr


def test_an_error_leaves_stdout_empty(workspace: Path) -> None:
    done = command("models", "--config", "leads", "--workspace", str(workspace), "--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert "use case is 'leads'; registered models: fraud" in done.stderr


@pytest.mark.slow
def test_a_backfill_that_fails_prints_its_days_and_exits_one(tmp_path: Path) -> None:
    file = compiled_file(one_step_a_day("exit 1"), tmp_path)
    days = ["--from", "2025-01-01", "--to", "2025-01-02"]

    done = command("backfill", str(file), *days, "--workspace", str(tmp_path), "--json")

    assert done.returncode == 1, done.stderr
    (day,) = check(done.stdout, "backfill_report")["days"]
    assert (day["date"], day["state"], day["highlights"]) == ("2025-01-01", "failed", [])


@pytest.mark.slow
def test_collectives_are_printed_as_json() -> None:
    words = engine("perf", "collectives", "--sizes", "1024", "--json")
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)

    points = check(done.stdout, "collective_report")["points"]
    assert [point["size_bytes"] for point in points] == [1024] * 5


def test_a_scaling_is_described_with_its_findings() -> None:
    job = ScalingSpec("mlp", NETWORK, {}, "cpu", 8)
    alone = ScalingMeasurement([Process(0.0, 0.1, 0.1)], 8, cores=2)
    two = ScalingMeasurement([Process(0.1, 0.1, 0.2)] * 2, 16, cores=2, gradients=Gradients(0.0, 0.0, 1, 100))
    curve = ScalingCurve(job, [alone, two])

    report = check(serialize(scale.describe_scaling(curve, limits.diagnose_scaling(curve))), "scaling_report")

    assert [point["efficiency"] for point in report["points"]] == [1.0, 0.5]
    assert report["findings"][0]["title"] == "The data loader"


def test_a_tuning_is_described_with_its_trials_and_changes() -> None:
    faster = VariantComparison([1.5], Decision.FAIL, Speed(100.0, 1e9, None), Speed(150.0, 1.5e9, None))
    trials = [Tried("threads", 2, faster), Tried("compile", "default", refused="there is no compiler")]
    tuned = Tuned(Variant({}, {}), {"threads": 2}, faster)

    report = tune.describe_tuning("mlp", TuningSetting("cpu", NETWORK, 100, ["threads", "compile"]), trials, tuned)

    first, second = check(serialize(report), "tuning_report")["trials"]
    assert (first["faster"], first["gain"], first["rows_per_second"]) == (True, 0.5, 150.0)
    assert (second["faster"], second["refused"]) == (None, "there is no compiler")
    assert (report.gain, report.changes) == (0.5, {"threads": 2})
