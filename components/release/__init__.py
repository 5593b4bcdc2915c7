"""Release: a version takes over from the champion in steps, or does not.

Shadow, then growing shares of the requests, then live or rolled back: `core.py` decides from verdicts and the clock,
`sequential.py` compares the two versions as labels arrive. The state is the release record, changed only by
compare-and-set.
"""
