"""Terraform's plan of an environment."""

from pathlib import Path
from typing import Any

from infra import terraform
from infra.cloud import answers as questions
from infra.cloud import rendering


def plan(cloud: str, environment: str, source: Path = terraform.INFRA) -> dict[str, Any]:
    """Return the plan of an environment, in the format of `terraform show -json`.

    Raises:
        UserError: when the answers file or terraform is missing.
        UnavailableError: when Terraform fails.
    """
    answers = questions.read(cloud, environment, questions.choose_folder(source))
    return terraform.plan(cloud, answers.size, source, rendering.variables(answers))
