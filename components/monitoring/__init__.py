"""Decide from the drift of the last days whether to ask for a retraining.

Reads: `drift.json` and the audit log's entries of earlier days.
Writes: the day's audit entry, once and for all, and `request.json`: whether to retrain, why, and a key by which
a request that is made twice is carried out once.
"""
