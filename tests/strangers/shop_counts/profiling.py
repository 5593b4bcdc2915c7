"""The training as something that is measured."""

from types import SimpleNamespace

from nightshift.contracts.profile import PhaseName
from shop_counts import training


def selected_fit(setup, model, phase):
    with phase(PhaseName.READ):
        sample, name = training.rows(setup).sample(setup.plan.test), model.selected
    with phase(PhaseName.MATRIX):
        matrix, kind = sample.matrix, model.candidates[name].kind
    fit = {"fit": lambda: sample.fit(name), "brief": lambda: lambda: sample.fit(name)}
    return SimpleNamespace(name=name, kind=kind, device="cpu", is_network=False, inputs=matrix, batch=1024, **fit)
