"""Scores of rows of classes: each is taken for the class with the highest score."""

from nightshift.tasks.tabular import scoring as base


class ScoringTask(base.ScoringTask):
    """A row's class, and its score."""
