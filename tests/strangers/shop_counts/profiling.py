"""The training as something that is measured."""

from types import SimpleNamespace

from nightshift import tasks
from nightshift.contracts.profile import PhaseName
from nightshift.models.tensors import by_name


def selected_fit(setup, model, phase):
    with phase(PhaseName.READ):
        sample, name = tasks.find(setup.config.task.kind).training.rows(setup).sample(setup.plan.test), model.selected
    with phase(PhaseName.MATRIX):
        inputs, kind = by_name(sample.matrix), model.candidates[name].kind
    fit = {"fit": lambda: sample.fit(name), "brief": lambda: lambda: sample.fit(name)}
    return SimpleNamespace(name=name, kind=kind, device="cpu", is_network=False, inputs=inputs, batch=1024, **fit)
