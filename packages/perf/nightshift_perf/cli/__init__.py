"""`nightshift perf`, one file per noun."""
