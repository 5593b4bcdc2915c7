"""Where released versions answer: one interface, one module a target.

A target is asked for a whole, which versions answer and how much of the requests each gets, and brings it about by
calls that find out what is there first. So a process that was killed between any two of them is followed by one that
makes what is missing. What bears the right name and is not ours, or has other content, is refused and left alone.
"""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from components.release.verdicts import RequestFigures
from nightshift import storage
from nightshift.registry import Version
from nightshift.runtime.errors import UnavailableError, UserError

TOLERANCE = 1e-4  # difference of a score: another processor adds up in another order
MAX_ATTEMPTS, ASK_SECONDS = 4, 5.0  # so far apart; together longer than one that was replaced is still asked
GPU = "nvidia.com/gpu"  # as Kubernetes and Cloud Run call the resource
STORED = "mlflow-artifacts:"  # what a tracking server calls its own store


class BadVersionError(UserError):
    """A version is wrong or does not start, which ends its release; any other mistake leaves the release as it is."""


class NoAnswerError(UnavailableError):
    """A request to a version got no response of a model server."""


@dataclass(frozen=True)
class VersionShare:
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


class ReleaseTarget(Protocol):
    """Where versions answer."""

    splits: bool  # whether two versions can answer
    tolerance: float  # by how much an answer's score may differ from that of the version's own files

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Have these versions answer, and return when the target says that they do; nothing is called if they do.

        Raises:
            BadVersionError: when one of them does not start.
            UserError: when something else bears the name, or the target refuses.
            UnavailableError: when the target does not answer, or takes too long.
        """

    def serving(self) -> dict[int, float]:
        """Return the versions that the target says answer, and their shares; empty without any."""

    def ask(self, share: VersionShare) -> Any:
        """Return what a version answers its request with.

        Raises:
            BadVersionError: when it does not, however often it is asked.
        """

    def measure(self, share: VersionShare, since: datetime, until: datetime) -> RequestFigures | None:
        """Return figures of a version's requests, None where the target has none."""

    def clean(self, split: Sequence[VersionShare]) -> None:
        """Delete our resources that none of these versions needs; without versions, the endpoint too."""


def rollout(target: ReleaseTarget, wanted: Sequence[VersionShare], before: Sequence[VersionShare] = ()) -> None:
    """Have a target serve these versions, check it with a request to each, and delete the ones they replace.

    Args:
        target: where.
        wanted: the champion, then its challenger, if it answers any requests.
        before: what is put back when a version does not answer as it should.

    Raises:
        BadVersionError: when one does not; then `before` answers.
        UserError: when the target refuses; then `before` answers, as far as it lets it.
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


def verify(target: ReleaseTarget, wanted: Sequence[VersionShare]) -> None:
    """Check that the versions that are wanted are what answers.

    Raises:
        BadVersionError: when they are not.
    """
    shares = {share.version.version: share.traffic for share in wanted}
    serving = target.serving()
    if serving.keys() != shares.keys() or any(not math.isclose(serving[key], shares[key]) for key in shares):
        raise BadVersionError(
            f"the endpoint serves {serving} where {shares} is wanted; look at its events, then run it again"
        )
    for share in wanted:
        check(share, target.ask(share), target.tolerance)


def check(share: VersionShare, answer: Any, tolerance: float = TOLERANCE) -> None:
    """Check what a version has answered its request with.

    Raises:
        BadVersionError: when it is not what its own files score.
    """
    if not answers(share, answer, tolerance):
        raise BadVersionError(
            f"version {share.version.version} answered {answer!r} where its files score {share.score}; "
            "train and register the model again"
        )


def answers(share: VersionShare, answer: Any, tolerance: float = TOLERANCE) -> bool:
    """Return whether an answer holds what a version's own files score."""
    try:
        return abs(float(answer["predictions"][0]["score"]) - share.score) <= tolerance
    except (LookupError, TypeError, ValueError):
        return False


def ask_until_valid(
    share: VersionShare, ask: Callable[[], Any], pause: Callable[[float], None], tolerance: float = TOLERANCE
) -> Any:
    """Return the first right answer of a version, else the last of `MAX_ATTEMPTS`.

    Raises:
        BadVersionError: when the last one is none.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(NoAnswerError):
            answer = ask()
            if answers(share, answer, tolerance):
                return answer
        pause(ASK_SECONDS)
    try:
        return ask()
    except NoAnswerError as error:
        raise BadVersionError(f"version {share.version.version} does not answer: {error}; look at its log") from None


def parse_answer(url: str, body: bytes) -> Any:
    """Return the JSON that a version has answered.

    Raises:
        NoAnswerError: when it is none.
    """
    try:
        return json.loads(body)
    except ValueError:
        raise NoAnswerError(f"{url} does not answer as a model server but {body[:200]!r}") from None


def files(version: Version, artifacts: str) -> str:
    """Return where a container finds the files of a version.

    Args:
        version: as it is registered.
        artifacts: where the registry's server keeps its files, such as s3://bucket/mlflow; empty without a server.

    Raises:
        UserError: when it finds them nowhere.
    """
    uri = version.source or version.uri
    is_stored = uri.startswith(STORED)
    if is_stored and artifacts:
        return storage.join(artifacts, uri.removeprefix(STORED).lstrip("/"))
    if is_stored or "://" not in uri:
        raise UserError(
            f"the files of version {version.version} are at {uri}, where no container reads them; keep the "
            f"registry (state.registry) in an object store, or give state.serving.artifacts, what {STORED} stands "
            "for, such as s3://bucket/mlflow"
        )
    return uri


def on_gpu(accelerator: object) -> list[str]:
    """Return the flags with which a server uses its machine's GPU; none without one."""
    return ["--device", "cuda"] if accelerator else []


def percents(split: Sequence[VersionShare], platform: str) -> list[int]:
    """Return the shares as percentages; together they make 100.

    Raises:
        UserError: when a share is not a whole percentage.
    """
    whole = [round(share.traffic * 100) for share in split]
    if not all(math.isclose(percent, share.traffic * 100) for percent, share in zip(whole, split, strict=True)):
        raise UserError(f"release.shares holds {split[-1].traffic:g}; {platform} takes whole percentages, such as 0.05")
    assert sum(whole) == 100
    return whole


def is_superset(actual: Any, wanted: Any) -> bool:
    """Return whether something holds all that is wanted; servers add fields of their own."""
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and all(is_superset(actual.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return len(actual or ()) == len(wanted) and all(map(is_superset, actual, wanted))
    return bool(actual == wanted)
