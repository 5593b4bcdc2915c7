"""Compare the newest days with the rows the model was trained on, and the labels that are due with what it promised.

Reads: the features manifest and its partitions in batches; what the scoring step has left: the days' scores, the
model's manifest and its sample of training rows.
Writes: `evidently.html` for people, `drift.json` (how far each column moved, every signal), then `verdict.json`:
pass or fail, and why.
"""
