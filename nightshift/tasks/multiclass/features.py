"""Trailing-window features of rows whose labels are classes: those of any table, without windows of labels."""

from nightshift.tasks.tabular import features as base


class FeaturesTask(base.FeaturesTask):
    """Features over trailing windows."""
