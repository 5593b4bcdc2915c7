"""A small task suite made of held-out documents, and its scores through a served endpoint.

`items.py` makes the tasks, `harness.py` writes them in the form of lm-evaluation-harness, `endpoint.py` asks a server
for log-likelihoods and completions, `scores.py` scores the items, and `comparison.py` judges a model by a champion.
"""
