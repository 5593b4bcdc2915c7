"""Score the days on which a model is watched: the newest ones, and those whose labels are due.

Reads: the features manifest and its partitions in batches; a model, or the registry whose champion scores; what the
endpoint has answered, from its prediction log.
Writes: a partition of scores a day into the lake, and the champion's into a database where the config names one; then a
folder for the drift step: the model's manifest, its sample of rows and its tokenizer, and `scores.json`, the manifest
of the partitions, which says whose scores they are.
"""
