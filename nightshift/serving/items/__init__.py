"""How images and texts in requests become the graph's input: a file for each task, and what both have in common.

A task is served once it has a file here that returns its `Items`, and `tasks.of` knows it.
"""
