"""Release: a version takes over from the champion in steps, or does not.

Shadow, then growing shares of the requests, then live or rolled back: `core.py` decides from verdicts and the clock,
`verdicts.py` says what labels and requests say so far, by the tests of `nightshift/stats/sequential.py`; `targets/` has
the versions answer. The state is the release record, changed only by compare-and-set.

Reads the release record, both versions, the features of the days whose labels have arrived, and the sums of losses of
earlier days. Writes those of the new days below `<audit>/<use case>/releases/`, once and for all, has the target serve
what follows, then changes the record; `release.json` is a copy of it. Where a person has to approve versions, one with
all its evidence waits; `--approve` approves a version before all else (`nightshift/registry/approvals.py`).
"""
