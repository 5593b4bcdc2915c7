"""Verdicts as files: what is written is read again, and what is something else is refused in one line."""

from pathlib import Path
from typing import Any

import pytest

from nightshift import storage
from nightshift.contracts.verdict import Decision, Measure, Opponent, Verdict
from nightshift.runtime.errors import UserError


@pytest.fixture
def verdict() -> Verdict:
    return Verdict(
        gate="evaluation",
        decision=Decision.PASS,
        reasons=["It is better."],
        measures=[
            Measure(name="average_precision", value=0.61, limit=0.3, interval=(0.58, 0.64)),
            Measure(name="auc_roc", value=None),
        ],
        subject="a" * 64,
        compared_with=Opponent(version=2, sha256="b" * 64),
    )


def test_a_verdict_that_was_written_is_read_again_as_it_was(tmp_path: Path, verdict: Verdict) -> None:
    verdict.write(f"{tmp_path}/verdict.json")

    assert Verdict.read(f"{tmp_path}/verdict.json") == verdict
    assert storage.read_json(f"{tmp_path}/verdict.json")["schema"] == 1


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"schema": 2}, "schema is 2 (Input should be 1)"),
        ({"decision": "promote"}, "decision is 'promote' (Input should be 'pass', 'fail' or 'undecided')"),
        ({"status": "stable"}, "status is 'stable' (Extra inputs are not permitted)"),
        ({"measures": [{"name": "x"}]}, "measures.0.value (Field required)"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_with_file_field_and_next_step(
    tmp_path: Path, verdict: Verdict, changed: dict[str, Any], says: str
) -> None:
    uri = f"{tmp_path}/verdict.json"
    storage.write_json(uri, verdict.model_dump(mode="json") | changed)

    with pytest.raises(UserError) as raised:
        Verdict.read(uri)

    message = f"{uri} is no Verdict of this version: {says}; run the step that writes it again"
    assert str(raised.value) == message


@pytest.mark.parametrize("value", [[], {"decision": "promote"}])
def test_a_file_without_a_version_is_no_artifact(tmp_path: Path, value: Any) -> None:
    storage.write_json(f"{tmp_path}/verdict.json", value)

    with pytest.raises(UserError, match="is no Verdict of this version \\(no 'schema'\\); run the step"):
        Verdict.read(f"{tmp_path}/verdict.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_measure_is_a_number(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Measure(name="x", value=value)
