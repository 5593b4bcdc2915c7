"""Profiling: how fast the MLP trains on the training rows, what it spends its time on, whether it waits for data.

Reads the features manifest and its partitions. Writes `trace.json.gz` (a Chrome trace, for chrome://tracing or
Perfetto) and then `profile.json`, by which the folder is complete.
"""
