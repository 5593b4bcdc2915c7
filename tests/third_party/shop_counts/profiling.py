"""The training as something that is measured."""

from dataclasses import dataclass

from nightshift import tasks
from nightshift.contracts.profile import PhaseName
from nightshift.models.tensors import by_name
from nightshift.tasks.base import profiling as base


@dataclass(frozen=True)
class CountFit(base.ProfiledFit):
    batch_size, device, is_network = 1024, "cpu", False
    sample: object

    @property
    def inputs(self):
        return by_name(self.sample.matrix)

    def fit(self):
        return self.sample.fit(self.name)

    def brief(self):
        return self.fit


class ProfilingTask(base.ProfilingTask):
    def selected_fit(self, setup, model, phase):
        with phase(PhaseName.READ):
            sample, name = (
                tasks.find(setup.config.task.kind).training.read_rows(setup).sample(setup.plan.test),
                model.selected,
            )
        with phase(PhaseName.MATRIX):
            assert len(sample.matrix)
        return CountFit(name, model.candidates[name].kind, sample)
