"""What steps write is what the JSON Schemas of the contracts say."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from components.evaluation.__main__ import evaluate
from nightshift import storage
from nightshift.contracts.__main__ import ARTIFACTS, list_artifacts, main, schema
from nightshift.contracts.verdict import Decision, Measure, Verdict
from tests.components import samples
from tests.components.states import state

# what the steps of a training write, and the contract of each
FILES = {
    "features.json": "table",
    "model/model.json": "model",
    "evaluation/evaluation.json": "evaluation",
    "evaluation/verdict.json": "verdict",
    "evaluation.section.json": "section",
    "scores/scores.json": "table",
    "drift/drift.json": "drift",
    "drift/verdict.json": "verdict",
    "drift.section.json": "section",
}


def test_every_contract_has_a_schema_which_the_command_writes(tmp_path: Path) -> None:
    main(str(tmp_path))

    assert {path.stem: path.read_text() for path in tmp_path.iterdir()} == {
        name: schema(artifact) for name, artifact in list_artifacts().items()
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which evaluation, scoring and drift have run on a real model."""
    folder = tmp_path_factory.mktemp("ran")
    frame = samples.features()
    reference = frame[frame["event_time"] < "2024-03-17"][["amount", "risk", "label"]]
    samples.write_model(folder / "model", {"only": [1.0, 0.0]}, reference.assign(score=reference["amount"]))
    features = samples.write_features(folder, frame)
    uris = {name: str(folder / name) for name in ("model", "evaluation", "drift")}
    context = samples.context(
        features=features, state=state(folder), model=uris["model"], evaluation=uris["evaluation"]
    )
    evaluate(context, lambda _: None)
    # as a process: the library that draws its page warns of deprecations
    done = samples.run("drift", features=features, scores=samples.score(folder, features), drift=uris["drift"])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_what_a_step_writes_is_what_the_schema_says_and_what_is_read(ran: Path, file: str) -> None:
    value: Any = json.loads((ran / file).read_text())

    jsonschema.validate(value, json.loads(schema(ARTIFACTS[FILES[file]])))
    assert ARTIFACTS[FILES[file]].read(str(ran / file)).model_dump(mode="json") == value


def test_a_schema_refuses_what_the_contract_refuses() -> None:
    verdict = Verdict(
        gate="evaluation",
        decision=Decision.PASS,
        reasons=[],
        measures=[Measure(name="x", value=1.0)],
        subject="a",
    )
    value = verdict.model_dump(mode="json")
    allowed = json.loads(schema(ARTIFACTS["verdict"]))

    jsonschema.validate(value, allowed)
    for wrong in ({"decision": "promote"}, {"status": "stable"}, {"schema": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value | wrong, allowed)


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_contract_names_the_file_the_field_and_the_next_step(tmp_path: Path, name: str) -> None:
    storage.write_json(f"{tmp_path}/wrong.json", {"schema": 1, "surprise": True})

    with pytest.raises(ValueError, match=r"wrong\.json is no \w+ of this version: \w+ .*; run the step that writes it"):
        ARTIFACTS[name].read(f"{tmp_path}/wrong.json")
