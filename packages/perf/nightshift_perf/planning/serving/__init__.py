"""What serving a language model takes: time to the first token, time per token, GPUs and dollars, from formulas.

`shapes.py` reads a model's sizes, `replica.py` counts the memory and the seconds of one forward pass, `batching.py`
what continuous batching makes of it, and `fleet.py` looks for the cheapest machines that meet an objective.
`nightshift perf plan --serve` calls them. See `packages/perf/docs/planning.md`.
"""
