"""Releases for tests: a record, days of labels, and a year's worth of days played in a moment."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from components.release import core
from components.release.core import Moment
from nightshift.config.policy import Rollout
from nightshift.contracts.release_record import Action, Release, ReleasedVersion
from nightshift.contracts.verdict import Verdict
from nightshift.stats.sequential import LossSums

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
CHAMPION = ReleasedVersion(version=1, sha256="a" * 64)
CHALLENGER = ReleasedVersion(version=2, sha256="b" * 64)
ROLLOUT = Rollout()

Judge = Callable[[Release, int], Sequence[Verdict]]


def at(days: float, run: str = "") -> Moment:
    return Moment(BEGAN + timedelta(days=days), "test", run)


def live() -> Release:
    return Release(use_case="fraud", versions=[CHAMPION], action=Action.PROMOTED, since=BEGAN, by="test")


def started() -> Release:
    return live().followed_by(core.start(live(), CHALLENGER, at(0)))


def played(judge: Judge, rollout: Rollout = ROLLOUT, days: int = 40) -> Release:
    """Look at a release once a day, for as long as there are days, whatever has been decided."""
    record = started()
    for day in range(1, days):
        verdicts = judge(record, day) if record.challenger else ()
        entry = core.advance(record, verdicts, rollout, at(day))
        record = record.followed_by(entry) if entry else record
    return record


def labeled(count: int, won: float, differing: float, both_wrong: float = 0.0) -> LossSums:
    """What a day's labels say where a loss is 0 or 1.

    Args:
        count: of the labels.
        won: by how many more of them the challenger is right than the champion.
        differing: of them, on which one of the two is wrong.
        both_wrong: of them.
    """
    champion, challenger = both_wrong + (differing + won) / 2, both_wrong + (differing - won) / 2
    return LossSums(count, champion, challenger, champion, challenger, both_wrong)
