"""Where released versions answer: one interface, one module a target.

A target is asked for a whole, which versions answer and how much of the requests each gets, and brings it about by
calls that find out what is there first. So a process that was killed between any two of them is followed by one that
makes what is missing. What bears the right name and is not ours, or has other content, is refused and left alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from components.common.errors import UserError
from components.common.registry import Version
from components.release.core import Slo

TOLERANCE = 1e-6  # of a score


@dataclass(frozen=True)
class Part:
    """A version that answers a share of the requests.

    Attributes:
        version: as it is registered.
        traffic: its share, above 0.
        request: one that it can be asked.
        score: what its own files score the only event of the request.
    """

    version: Version
    traffic: float
    request: dict[str, Any]
    score: float


class Target(Protocol):
    """Where versions answer."""

    splits: bool  # whether two versions can answer

    def apply(self, parts: Sequence[Part]) -> None:
        """Have these versions answer, and return when the target says that they do; nothing is called if they do.

        Raises:
            UserError: when one of them does not start, or something else bears the name.
            UnavailableError: when the target does not answer, or takes too long.
        """

    def serving(self) -> dict[int, float]:
        """Return the versions that the target says answer, and their shares; empty without any."""

    def ask(self, part: Part) -> Any:
        """Return what a version answers its request with."""

    def measured(self, part: Part, since: datetime, until: datetime) -> Slo | None:
        """Return what a version's requests were like, None where the target does not say."""

    def clean(self, parts: Sequence[Part]) -> None:
        """Remove all of ours that these versions do not need; without any, the endpoint too."""


def bring(target: Target, wanted: Sequence[Part], before: Sequence[Part] = ()) -> None:
    """Have a target serve what is wanted, check by asking that it does, and remove what that replaces.

    Args:
        target: where.
        wanted: the champion, then its challenger, if it answers any requests.
        before: what is put back when a version does not answer as it should.

    Raises:
        UserError: when one does not; then `before` answers.
        UnavailableError: when the target does not answer; call again, nothing is lost.
    """
    try:
        target.apply(wanted)
        verify(target, wanted)
    except UserError:
        if before:
            target.apply(before)
        target.clean(before)
        raise
    target.clean(wanted)


def verify(target: Target, wanted: Sequence[Part]) -> None:
    """Check that the versions that are wanted are what answers.

    Raises:
        UserError: when they are not.
    """
    shares = {part.version.version: part.traffic for part in wanted}
    serving = target.serving()
    if serving.keys() != shares.keys() or any(not math.isclose(serving[key], shares[key]) for key in shares):
        raise UserError(
            f"the endpoint serves {serving} where {shares} is wanted; look at its events, then run it again"
        )
    for part in wanted:
        check(part, target.ask(part))


def check(part: Part, answer: Any) -> None:
    """Check what a version has answered its request with.

    Raises:
        UserError: when it is not what its own files score.
    """
    if not answers(part, answer):
        raise UserError(
            f"version {part.version.version} answered {answer!r} where its files score {part.score}; "
            "train and register the model again"
        )


def answers(part: Part, answer: Any) -> bool:
    """Return whether an answer holds what a version's own files score."""
    try:
        return abs(float(answer["predictions"][0]["score"]) - part.score) <= TOLERANCE
    except (LookupError, TypeError, ValueError):
        return False


def percents(parts: Sequence[Part], platform: str) -> list[int]:
    """Return the shares as percentages; together they make 100.

    Raises:
        UserError: when a share is not a whole percentage.
    """
    found = [round(part.traffic * 100) for part in parts]
    if not all(math.isclose(percent, part.traffic * 100) for percent, part in zip(found, parts, strict=True)):
        raise UserError(f"release.shares holds {parts[-1].traffic:g}; {platform} takes whole percentages, such as 0.05")
    assert sum(found) == 100
    return found


def holds(found: Any, wanted: Any) -> bool:
    """Return whether something holds all that is wanted; servers add fields of their own."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(holds(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return len(found or ()) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)
