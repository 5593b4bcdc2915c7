"""Compare the newest days with the rows a model carries, and the labels that are due with what it promised.

These rows are a sample of its training days; of images and texts, which a network knows too well by then, of the days
before.

Reads: the features manifest and its partitions in batches; what the scoring step has left: the days' scores, the
model's manifest, its sample of rows and its tokenizer.
Writes: `evidently.html` for people, if the config has `drift.evidently`; `drift.json` (how far each column moved, every
signal), then `verdict.json`: pass or fail, and why.
"""
