"""What Terraform would make of an environment."""

from pathlib import Path
from typing import Any

from infra import terraform
from infra.cloud import answers as questions
from infra.cloud import rendering


def plan(cloud: str, environment: str, source: Path = terraform.INFRA) -> dict[str, Any]:
    """Return the plan of an environment that has a file of answers, as `terraform show -json` writes it.

    Raises:
        UserError: when there is no such file, or no terraform.
        UnavailableError: when Terraform refuses it.
    """
    answers = questions.read(cloud, environment, source / "answers")
    return terraform.plan(cloud, answers.size, source, rendering.variables(answers))
