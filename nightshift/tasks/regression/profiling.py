"""A candidate of a table of numbers, as something whose training is measured."""

from nightshift.tasks import library_fits as base
from nightshift.tasks.regression.training import TrainingTask


class ProfilingTask(base.ProfilingTask):
    """A candidate on the training rows."""

    training = TrainingTask
