"""What deployment shows: commands for what answers."""

import json
import shlex
from typing import Any

from components.deployment import section
from nightshift.contracts.deployment import Deployment, DeploymentOutcome
from nightshift.contracts.section import Code


def record(**fields: Any) -> Deployment:
    described = {
        "model": "tales",
        "version": 2,
        "sha256": "a" * 64,
        "decision": DeploymentOutcome.PROMOTED,
        "reasons": [],
        "champion_version": 2,
        "previous_champion_version": 1,
        "registry": "registry",
        "target": "local",
        "endpoint": "http://127.0.0.1:8321",
        "endpoint_checked": True,
        "curl": "curl http://127.0.0.1:8321/score",
        "example": {},
    }
    return Deployment.model_validate(described | fields)


def commands(record: Deployment) -> dict[str, str]:
    return {block.title: block.text for block in section.build(record).blocks if isinstance(block, Code)}


def test_a_caveat_comes_before_what_became_of_the_version() -> None:
    outcome = section.build(record(caveats=["Input 'x' tells all."])).outcome
    assert outcome
    assert (outcome.headline, outcome.tone) == ("Input 'x' tells all. Version 2 is live", "bad")


def test_a_champion_that_generates_text_has_a_command_for_it() -> None:
    command = commands(record(engine="http://127.0.0.1:8421/v1"))["Generate text"]
    *_, url, header, content_type, flag, body = shlex.split(command)
    assert (url, header, content_type, flag) == (
        "http://127.0.0.1:8421/v1/completions", "-H", "content-type: application/json", "-d"
    )  # fmt: skip
    assert json.loads(body)["model"] == "tales"


def test_a_champion_that_only_scores_has_none() -> None:
    assert list(commands(record())) == ["Send a request"]
