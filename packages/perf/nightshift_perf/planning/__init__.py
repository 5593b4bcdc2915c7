"""How long a training takes, what memory it needs and what it costs, from formulas, before anything runs.

Not a step: `nightshift perf plan` calls it, and it reads two tables and computes. `models.py` counts a model's work,
`memory.py` and `timing.py` what a layout of it on a cluster needs and takes, `search.py` looks for the fastest one that
fits, and `published.py` holds all of it against what others have measured. See `packages/perf/docs/planning.md`.
"""
