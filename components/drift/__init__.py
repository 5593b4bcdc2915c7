"""Compare the newest days with the rows the model was trained on, and the labels that are due with what it promised.

Reads: the features manifest, its partitions in batches, the model and the sample of training rows it carries.
Writes: `evidently.html` for people, then `verdict.json`: stable or drifted, why, and how far each column moved.
"""
