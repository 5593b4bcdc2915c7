"""Measure every candidate on the test days, and the selected one against the champion on the same rows.

Reads: the features manifest, the model, the registry's champion.
Writes: `evaluation.json` (metrics and curves), then `verdict.json`: promote or keep, and why.
"""
