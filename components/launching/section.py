"""What launching shows on the page of its run: what was started."""

from nightshift.contracts.request import Launch
from nightshift.contracts.section import Block, Link, Links, Section, Text

WEIGHT = 6


def build(launch: Launch) -> Section:
    """Return the section of a launch.

    Args:
        launch: the outcome that the step writes.
    """
    blocks: list[Block] = [Text(sentences=[f"Outcome: {launch.said}", f"Reason: {launch.reason}"])]
    if launch.run and launch.url:
        blocks.append(Links(title="Run", links=[Link(name=launch.run, uri=launch.url)]))
    return Section(title="Retraining run", weight=WEIGHT, blocks=blocks)
