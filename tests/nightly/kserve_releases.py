"""Releases by shares on a simulated KServe, killed at random: `python -m tests.nightly.kserve_releases`.

At every step of the cluster each Service that gets requests has pods, and no version gets any that does not start or
answers wrongly.
"""

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from components.release.targets import BadVersionError, VersionShare, rollout
from nightshift.registry import Version
from tests.components.release.targets.kserve_raw import StandardControllers
from tests.components.release.targets.platform import Killed
from tests.components.release.targets.versions import Fleet

SHARES = (0.05, 0.25, 0.5)
SCORE, KILLED = 0.5, 0.3  # what every version's files score; how often a rollout is killed
CALLS = 40  # of the longest rollout


class Outcome(StrEnum):
    """The end of a release."""

    PROMOTED = "promoted"
    WITHDRAWN = "withdrawn"  # at one of its shares
    BROKEN = "does not start"
    WRONG = "answers wrongly"


class ScriptedFleet(Fleet):
    """Versions without servers, some of which do not start."""

    def __init__(self) -> None:
        super().__init__()
        self.broken_uris: set[str] = set()

    def starts(self, uri: str) -> bool:
        return uri not in self.broken_uris

    def answer(self, uri: str, body: bytes) -> bytes:
        return f'{{"predictions": [{{"score": {SCORE}}}]}}'.encode()


class ReleaseSimulation:
    """A use case whose versions are released one after the other."""

    def __init__(self, cluster: StandardControllers, fleet: ScriptedFleet, seed: int) -> None:
        """Serves the first version.

        Args:
            cluster: with nothing served.
            fleet: the cluster's.
            seed: of outcomes and kills.
        """
        self._cluster, self._fleet, self._random = cluster, fleet, random.Random(seed)
        self._champion, self._bad = release_share(1), set[int]()
        self._roll_out([self._champion])

    def release(self, number: int) -> Outcome:
        """Release a version, and check that requests get to healthy pods alone."""
        outcome, challenger = self._random.choice(list(Outcome)), release_share(number)
        if outcome is Outcome.BROKEN:
            self._fleet.broken_uris.add(challenger.version.uri)
        if outcome is Outcome.WRONG:
            challenger = replace(challenger, score=SCORE + 0.1)
        if outcome in (Outcome.BROKEN, Outcome.WRONG):
            self._bad.add(number)
        reached = self._random.randint(1, len(SHARES)) if outcome is Outcome.WITHDRAWN else len(SHARES)
        try:
            for share in SHARES[:reached]:
                self._roll_out([replace(self._champion, traffic=1 - share), replace(challenger, traffic=share)])
        except BadVersionError:
            assert number in self._bad
        if outcome is Outcome.PROMOTED:
            self._champion = challenger
        self._roll_out([self._champion])
        assert self._cluster.versions() == {self._champion.version.version}
        return outcome

    def _roll_out(self, split: Sequence[VersionShare]) -> None:
        """Roll out a state, and once more where the process was killed."""
        counted, target = self._cluster.counted, self._cluster.waiting(self._pass_time)
        before = [self._champion] if len(split) > 1 else split[:0]
        counted.clear()
        if self._random.random() < KILLED:
            counted.before = self._random.randrange(CALLS)
        try:
            rollout(target, split, before)
        except Killed:
            rollout(target, split, before)
        counted.clear()
        assert target.serving() == {share.version.version: share.traffic for share in split}

    def _pass_time(self, seconds: float) -> None:
        self._cluster.pass_time(seconds)
        assert all(map(self._cluster.is_answering, self._cluster.backends()))
        assert not self._bad & self._cluster.shares().keys()


def release_share(number: int) -> VersionShare:
    """Return a version that answers everything."""
    version = Version("fraud", number, f"s3://registry/{number}", f"{number:064}", {})
    return VersionShare(version, 1.0, {}, SCORE)


def simulate(folder: Path, releases: int, seed: int) -> Counter[Outcome]:
    """Return how many releases ended how.

    Args:
        folder: an empty one.
        releases: how many.
        seed: of outcomes and kills.
    """
    fleet = ScriptedFleet()
    with StandardControllers.running(fleet, folder, acts=False) as cluster:
        simulation = ReleaseSimulation(cluster, fleet, seed)
        return Counter(simulation.release(number) for number in range(2, releases + 2))


def main() -> None:
    """Print how many releases ended how; the first one that breaks a rule fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.kserve_releases", description=__doc__)
    parser.add_argument("--releases", type=int, default=1000, help="versions to release")
    parser.add_argument("--seed", type=int, default=0, help="of outcomes and kills")
    arguments, began = parser.parse_args(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = simulate(Path(folder), arguments.releases, arguments.seed)
    ended = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"{counts.total()} releases in {time.monotonic() - began:.0f} s: {ended}")


if __name__ == "__main__":
    main()
