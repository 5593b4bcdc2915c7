"""A candidate of a table of classes, as something whose training is measured."""

from nightshift.tasks import library_fits as base
from nightshift.tasks.multiclass.training import TrainingTask


class ProfilingTask(base.ProfilingTask):
    """A candidate on the training rows."""

    training = TrainingTask
