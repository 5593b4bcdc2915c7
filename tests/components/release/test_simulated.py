"""A thousand simulated releases of a better, a worse and an equally good challenger each."""

import numpy as np
import pytest

from components.release import core
from nightshift.contracts.release import Action, Release
from nightshift.contracts.verdict import Verdict
from nightshift.stats.sequential import Tally
from tests.components.release.releases import CHALLENGER, ROLLOUT, played

pytestmark = pytest.mark.slow

RELEASES, DAYS, LABELS, DELAY = 1000, 28, 1500, 7
DIFFER = 0.04  # share of the labeled events on which only one of the two versions is right


def simulated(chance: float, seed: int) -> list[Release]:
    """Releases of a challenger that is right with some chance where only one is; labels come a week late."""
    random = np.random.default_rng(seed)
    differ = random.binomial(LABELS, DIFFER, (RELEASES, DAYS))
    won = random.binomial(differ, chance)
    return [
        _played([Tally(LABELS, 2.0 * w - d, float(d)) for w, d in zip(*row, strict=True)])
        for row in zip(won, differ, strict=True)
    ]


def _played(labels: list[Tally]) -> Release:
    def judge(record: Release, day: int) -> list[Verdict]:
        return [core.compare(labels[: max(day - DELAY, 0)], record, ROLLOUT)]

    return played(judge)


@pytest.mark.parametrize(("what", "chance"), [("better", 0.6), ("worse", 0.45), ("equal", 0.5)])
def test_a_better_version_gets_everything_a_worse_one_next_to_nothing_and_an_equal_one_is_not_promoted(what, chance):
    records = simulated(chance, seed=0)

    promoted = np.array([record.live.version == CHALLENGER.version for record in records])
    exposed = np.array([core.exposure(record, CHALLENGER.version, ROLLOUT) for record in records])
    days = np.array([(record.since - record.history[1].since).days for record in records])
    decisions = np.array([sum(entry.stage == "live" for entry in record.entries[1:]) for record in records])
    print(  # the figures
        f"\n{what}: {promoted.mean():.1%} of 1,000 promoted, decided after {np.median(days):.0f} days ({days.min()} to "
        f"{days.max()}), traffic-days of the challenger {exposed.mean():.2%}, at most {exposed.max():.2%}"
    )
    assert np.all(decisions == 1)
    assert {record.action for record in records} <= {Action.PROMOTED, Action.ROLLED_BACK}
    if what == "better":
        assert promoted.all()
    if what == "worse":
        assert not promoted.any() and exposed.max() < 0.1
    if what == "equal":
        assert promoted.mean() <= ROLLOUT.alpha
