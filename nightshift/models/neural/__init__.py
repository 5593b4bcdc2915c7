"""What steps share about networks: one training loop for every model family, over one process or many.

A model family is a recipe in `recipes/`; `trainer.fit` trains it. `mesh` lays it out over processes, `processes`
joins them, `checkpoints` and `preemption` let a training survive its machine. Not a step.
"""
