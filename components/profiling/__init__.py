"""Profiling: how fast the selected model trains and scores, what it spends its time on, whether it waits for data.

Reads the features manifest, its partitions and the model's manifest, and repeats the model's fit. Writes
`trace.json.gz` (a Chrome trace, for chrome://tracing or Perfetto) and then `profile.json`, by which the folder is
complete. Traces of other trainings are diagnosed by `nightshift perf profile`.
"""
