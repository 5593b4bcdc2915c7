"""What launching shows on the page of its run: what was started."""

from collections.abc import Mapping
from typing import Any

from components.common.contracts.section import Block, Link, Links, Section, Text

WEIGHT = 6


def build(launch: Mapping[str, Any]) -> Section:
    """Return the section of a launch.

    Args:
        launch: the outcome that the step writes.
    """
    blocks: list[Block] = [Text(sentences=[launch["said"]])]
    if "url" in launch:
        blocks.append(Links(title="Run", links=[Link(name=launch["run"], uri=launch["url"])]))
    return Section(title="Retraining run", weight=WEIGHT, blocks=blocks)
