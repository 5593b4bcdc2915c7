"""Simulated releases of language models: which are promoted, what harm they do, how long they take.

    RECORD=1 python -m benchmarks.releases [RELEASES]
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
from scipy.stats import lognorm

from components.release import core, verdicts
from components.release.core import Moment
from components.release.verdicts import Guard
from nightshift.config.policy import Rollout
from nightshift.contracts.release import Action, Release, ReleasedVersion
from nightshift.contracts.verdict import Verdict
from nightshift.stats.sequential import LossSums, Tally

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
CHAMPION = ReleasedVersion(version=1, sha256="a" * 64)
CHALLENGER = ReleasedVersion(version=2, sha256="b" * 64)
SLICES = {"chat": 0.4, "code": 0.3, "translation": 0.2, "summary": 0.1}  # shares of the judged answers
JUDGED, DIFFER, WRONG = 3000, 0.04, 0.08  # a day; only one of two versions is wrong; both are
REQUESTS, WEEK = 100_000, (1.0, 1.05, 1.05, 1.0, 0.95, 0.6, 0.55)  # a day, times that of the weekday
SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


@dataclass(frozen=True)
class Kind:
    wins: float
    slice_wins: float | None = None
    slower: float = 1.0
    dearer: float = 1.0


KINDS = {
    "better": Kind(0.6),
    "equal": Kind(0.5),
    "worse": Kind(0.45),
    "worse for a slice": Kind(0.6, slice_wins=0.2),
    "slower": Kind(0.6, slower=1.3),
    "dearer": Kind(0.6, dearer=1.3),
}


def judged(kind: Kind, random: np.random.Generator, days: int):
    out = []
    for _ in range(days):
        day = {}
        for name, share in SLICES.items():
            chance = kind.slice_wins if kind.slice_wins is not None and name == "summary" else kind.wins
            n = int(JUDGED * share)
            differ, both = random.binomial(n, DIFFER), random.binomial(n, WRONG)
            won = random.binomial(differ, chance)
            before, after = both + won, both + differ - won
            day[name] = LossSums(n, before, after, before, after, both)
        out.append(day)
    return out


def whole(day):
    return LossSums(*(sum(getattr(s, f) for s in day.values()) for f in LossSums.__dataclass_fields__))


def chances(edges, median, sigma):
    return np.diff(lognorm.cdf([0, *edges[:-1], np.inf], sigma, scale=median))


def requests(kind, random, day, share, edges, median, factor):
    n = int(REQUESTS * WEEK[day % 7])
    n1 = random.binomial(n, share)
    sums = [
        Tally.from_histogram(edges, random.multinomial(count, chances(edges, m, 0.6)), edges[-1])
        for count, m in ((n - n1, median), (n1, median * factor))
    ]
    return LossSums.from_requests(*sums)


def play(kind: Kind, rollout: Rollout, delay: int, seed: int):
    random = np.random.default_rng(seed)
    record = Release(use_case="chat", versions=[CHAMPION], action=Action.PROMOTED, since=BEGAN, by="test")
    record = record.followed_by(core.start(record, CHALLENGER, Moment(BEGAN, "test")))
    labels = judged(kind, random, rollout.horizon_days)
    wholes = [whole(d) for d in labels]
    seconds, tokens, odds = [], [], []
    for day in range(1, rollout.horizon_days + 1):
        share = record.challenger.traffic
        if share:
            seconds.append(requests(kind, random, day, share, SECONDS, 0.2, kind.slower))
            tokens.append(requests(kind, random, day, share, TOKENS, 200, kind.dearer))
            odds.append(share / (1 - share))
        known = labels[: max(day - delay, 0)]
        guards = [Guard(f"loss where task is {n}", "observations", [d[n] for d in known], [1.0] * len(known)) for n in SLICES] if known else []
        if odds:
            guards += [Guard("time to first token", "requests", seconds, odds), Guard("tokens", "requests", tokens, odds)]
        verdicts_ = [verdicts.compare(wholes[: max(day - delay, 0)], record, rollout), *verdicts.check_guards(guards, record, rollout)]
        entry = core.advance(record, verdicts_, rollout, Moment(BEGAN + timedelta(days=day), "t"))
        if entry:
            record = record.followed_by(entry)
            if record.challenger is None:
                break
    return record.live.version == 2, core.exposure(record, 2, rollout), day, record.reasons[0], core.exposure(record,2,rollout)*28/day


def main(n, **kw):
    rollout = Rollout(slices=["task"], **{k: v for k, v in kw.items() if k != "delay"})
    with ProcessPoolExecutor(2) as pool:
        for name, kind in KINDS.items():
            rows = list(pool.map(partial(play, kind, rollout, kw.get("delay", 1)), range(n), chunksize=50))
            promoted, exposed, days, strict = (np.array([r[i] for r in rows]) for i in (0, 1, 2, 4))
            print(f"{name:20} promoted {promoted.mean():.3f} traffic max {exposed.max():.4f} p99 {np.quantile(exposed,.99):.4f} strict max {strict.max():.3f} p99 {np.quantile(strict,.99):.3f} median days {np.median(days)} p90 {np.quantile(days,.9)}")
            from collections import Counter
            print("      ", Counter(r[3].split(" after")[0] for r in rows).most_common(4))


if __name__ == "__main__":
    import ast
    main(int(sys.argv[1]), **{k: ast.literal_eval(v) for k, v in (a.split("=") for a in sys.argv[2:])})
