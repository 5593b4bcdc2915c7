import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.reporting.summary import Summary

pytestmark = pytest.mark.slow

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "summary.md"


def test_a_finished_run_is_summarized_in_full(sample):
    summary, _ = sample.report()
    assert summary["schema"] == 1
    assert (summary["run"], summary["pipeline"], summary["engine"]) == (sample.run, "training", "local")
    assert (summary["status"], summary["logical_date"], summary["device"]) == ("succeeded", "2018-08-14", "cpu")
    assert summary["data"] == "/data/handbook/raw"
    assert summary["started"] == "2026-11-20T02:10:00Z"
    assert summary["config"]["evaluation"]["min_positives"] == 50  # a default, written out
    assert summary["rows"] == {
        "read": 690_135,
        "quarantined": {"negative amount": 12, "duplicate id": 3},
        "quarantined_labels": {"negative amount": {"negative": 10, "positive": 2}, "duplicate id": {"": 3}},
        "train": 67_240,
        "train_positives": 598,
        "test": 58_264,
        "test_positives": 385,
    }
    assert summary["windows"] == {
        "train": {"first": "2018-07-25", "last": "2018-07-31"},
        "validation": {"first": "2018-07-25", "last": "2018-07-31"},
        "test": {"first": "2018-08-08", "last": "2018-08-14"},
    }
    assert summary["selected"] == "random_forest"
    assert summary["models"]["random_forest"] == {
        "auc_roc": 0.8671,
        "average_precision": 0.6579,
        "precision_at_100": 0.2871,
        "precision_at_100_ceiling": 0.397142,
    }
    assert summary["verdicts"]["evaluation"]["decision"] == "pass"
    assert summary["verdicts"]["drift"]["drifted_share"] == 1 / 15
    assert summary["verdicts"]["deployment"]["decision"] == "promoted"
    assert list(summary["hashes"]) == ["events", "features", "model"]
    assert all(len(value) == 64 for value in summary["hashes"].values())
    assert (summary["model_version"], summary["champion_version"]) == (3, 3)
    assert summary["endpoint"] == "http://127.0.0.1:8321"
    assert summary["curl"].startswith("curl -s http://127.0.0.1:8321/predict ")
    assert summary["profile"]["rows_per_second"] == 183_402.4
    assert summary["ignored"] == ["training: accelerator", "profiling: accelerator"]
    assert summary["links"]["model_card"] == str(sample.file("evaluation/model_card.md"))
    assert summary["links"]["evidently"] == str(sample.file("drift/evidently.html"))


def test_what_a_step_measured_of_itself_goes_before_what_the_engine_saw(sample):
    sample.executor_input["inputs"]["artifacts"]["drift"]["artifacts"][0]["metadata"] = {}
    steps = sample.report()[0]["steps"]
    assert steps["training"] == {
        "state": "done",
        "seconds": 31.4,
        "cpu_seconds": 50.24,
        "peak_memory_bytes": 928_000_000,
        "device": "cpu",
        "machine": None,
        "usd": None,
        "error": None,
    }
    assert (steps["drift"]["seconds"], steps["drift"]["peak_memory_bytes"]) == (6.0, 400_000_000)
    assert steps["drift"]["cpu_seconds"] is None


def test_without_a_record_the_results_that_arrived_tell_the_states(sample):
    (sample.folder / "run.json").unlink()
    summary, _ = sample.report()
    assert {step["state"] for step in summary["steps"].values()} == {"done"}
    assert (summary["status"], summary["engine"], summary["started"]) == ("succeeded", None, None)


def test_the_metric_names_carry_the_configured_number_of_cards(sample):
    config = json.loads(sample.flags["config"]) | {"evaluation": {"top_k": 50}}
    sample.flags["config"] = json.dumps(config)
    summary, _ = sample.report()
    assert set(summary["models"]["mlp"]) >= {"precision_at_50", "precision_at_50_ceiling"}


def test_a_summary_is_read_back_as_it_was_written(sample):
    written, _ = sample.report()
    assert Summary.model_validate(written).model_dump(mode="json") == written


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["models", "mlp", "auc_roc"], float("nan")),
        (["steps", "drift", "seconds"], float("inf")),
        (["models", "mlp", "precision_at_7"], 0.2),
        (["steps", "drift", "state"], "sleeping"),
        (["verdicts", "drift", "decision"], "unsure"),
        (["schema"], 2),
        (["surprise"], 1),
        (["rows", "read"], "many"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, list) else "",
)
def test_the_schema_refuses(sample, path, value):
    summary, _ = sample.report()
    node = summary
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    with pytest.raises(ValidationError):
        Summary.model_validate(summary)


def test_times_are_utc_whatever_zone_they_came_in(sample):
    summary, _ = sample.report()
    offset = datetime(2026, 11, 20, 4, 10, tzinfo=timezone(timedelta(hours=2)))
    for moment in (offset, datetime(2026, 11, 20, 2, 10)):
        read = Summary.model_validate(summary | {"started": moment})
        assert read.started == datetime(2026, 11, 20, 2, 10, tzinfo=UTC)


def test_the_document_describes_every_field_as_the_schema_does():
    text = DOCUMENT.read_text()
    written = [line for line in text.splitlines() if line.startswith(("## `", "| `"))]
    assert written == list(described())


def described() -> Iterator[str]:
    """Yield the document's headings and rows: an object at a time, a field a row."""
    schema = Summary.model_json_schema(mode="serialization")
    for name, part in {"Summary": schema, **schema["$defs"]}.items():
        yield f"## `{name}`"
        for field, value in part["properties"].items():
            yield f"| `{field}` | {kind(value)} | {value['description']} |"


NAMES: dict[str, Callable[[dict[str, Any]], str]] = {
    "anyOf": lambda field: " or ".join(map(kind, field["anyOf"])),
    "const": lambda field: f"always `{json.dumps(field['const'])}`",
    "enum": lambda field: "one of " + ", ".join(f"`{value}`" for value in field["enum"]),
    "$ref": lambda field: f"`{field['$ref'].rsplit('/')[-1]}`",
    "format": lambda field: {"date": "date, YYYY-MM-DD", "date-time": "time, ISO 8601"}[field["format"]],
    "items": lambda field: f"list of {kind(field['items'])}",
}


def kind(field: dict[str, Any]) -> str:
    """Return a JSON schema's type in words."""
    for key, name in NAMES.items():
        if key in field:
            return name(field)
    values = field.get("additionalProperties")
    return f"object of {kind(values)}" if isinstance(values, dict) else field["type"]
