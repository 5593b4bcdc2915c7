"""Receivers of lineage and spans are named by the environment, and cost nothing without it."""

import subprocess
import sys
from argparse import Namespace

import pytest

from nightshift.runtime.context import StepContext
from nightshift.runtime.flags import StepParser
from nightshift.runtime.identity import RunIdentity
from nightshift.runtime.observers import observe_run, observe_step, sends_lineage, sends_spans

ARTIFACTS = {"model": {"artifacts": [{"uri": "/srv/runs/night/training/model"}]}}
SCRIPT = """
import sys
from nightshift.runtime import flags, step

step.run(flags.StepParser("sample", "Does nothing."), lambda context: print(sorted(
    name for name in sys.modules if name.startswith(("nightshift.open", "opentelemetry", "openlineage")))))
"""


@pytest.mark.parametrize(
    ("variables", "is_on"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": ""}, False),
        ({"OPENLINEAGE_NAMESPACE": "prod"}, False),
        ({"OPENLINEAGE_URL": "http://catalog"}, True),
        ({"OPENLINEAGE_CONFIG": "/etc/openlineage.yml"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "kafka"}, True),
        ({"OPENLINEAGE__TRANSPORT": "{}", "OPENLINEAGE_DISABLED": "True"}, False),
    ],
)
def test_lineage_is_sent_where_the_librarys_variables_name_a_transport(variables: dict[str, str], is_on: bool) -> None:
    assert sends_lineage(variables) is is_on


@pytest.mark.parametrize(
    ("variables", "is_on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, True),
    ],
)
def test_spans_are_sent_where_the_sdks_variables_name_a_receiver(variables: dict[str, str], is_on: bool) -> None:
    assert sends_spans(variables) is is_on


@pytest.mark.slow
def test_a_step_without_receivers_imports_nothing_for_them() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_library_that_is_missing_is_a_line_in_the_log_that_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "nightshift.openlineage.events", None)  # as if its library were
    context = StepContext(Namespace(executor_input={"outputs": {"artifacts": ARTIFACTS}}))

    with observe_step(StepParser("training", "Fits."), context):
        pass

    assert "pip install -e '.[openlineage]'" in caplog.text


def test_a_runs_outcome_and_its_errors_are_its_own() -> None:
    run = RunIdentity("fraud", "training", "/srv/runs/night")

    assert [observe_run(run, lambda: True), observe_run(run, lambda: False)] == [True, False]
    with pytest.raises(ZeroDivisionError):
        observe_run(run, lambda: bool(1 / 0))
