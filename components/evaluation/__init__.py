"""Measure every candidate on the test days, and the selected one against the champion on the same rows.

Reads: the features manifest, the model, the registry's champion.
Writes: `evaluation.json` (metrics, intervals, cost and curves), `model_card.md` (what the model is made from, how
good it is and where, what it does not know), `skew.json`: whether online features equal the offline ones, then
`verdict.json`: pass, fail or undecided, and why. Where a task has classes, there are no online features and no
`skew.json`.
"""
