"""A language model as something whose training is measured."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.models.tensors import Tensors, by_name, row_count
from nightshift.tasks.base import profiling as base
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.items.networks import STEPS, shorten_fit
from nightshift_llm.config import LanguageConfig
from nightshift_llm.task import candidates, documents, training
from nightshift_llm.task.training import DocumentSample


@dataclass(frozen=True)
class DocumentFit(base.ProfiledFit):
    """A candidate.

    Attributes:
        sample: the training texts.
    """

    batch_size: ClassVar = 8
    is_network: ClassVar = True
    sample: DocumentSample

    @property
    def device(self) -> str:
        return self.sample.setup.device

    @cached_property
    def inputs(self) -> Tensors:
        return by_name(documents.cut_rows(documents.read_tokens(self.sample.rows), self.sample.preprocessing)[0])

    def fit(self) -> Fitted:
        return self.sample.fit(self.name)

    def brief(self) -> Callable[[], Fitted]:
        task = self.sample.setup.task
        candidate = task.candidates[self.name]
        parameters = shorten_fit(candidate.parameters, candidates.recipe(task, self.name).fit)
        brief = candidate.model_copy(update={"parameters": parameters})
        setup = replace(self.sample.setup, task=task.model_copy(update={"candidates": {self.name: brief}}))
        rows = self.sample.rows.head(STEPS * candidates.recipe(setup.task, self.name).fit.batch_size)
        return partial(candidates.fit, setup, self.name, rows)


class ProfilingTask(base.ProfilingTask):
    """The fit of a candidate with the parameters of the config."""

    def selected_fit(
        self,
        setup: TrainingSetup[LanguageConfig],
        model: ModelPackage,
        phase: Callable[[PhaseName], AbstractContextManager[None]],
    ) -> DocumentFit:
        with phase(PhaseName.READ):
            sample = training.TrainingTask().read_rows(setup).sample(setup.plan.test)
            fit = DocumentFit(model.selected, setup.config.task.candidates[model.selected].kind, sample)
        with phase(PhaseName.MATRIX):
            assert row_count(fit.inputs)
        return fit

    def network(self, config: LanguageConfig, name: str, inputs: int | None) -> ConfiguredNetwork:
        recipe = candidates.recipe(config.task, name)
        shape = {"vocabulary": recipe.vocabulary, "start": recipe.start, "length": recipe.length}
        return ConfiguredNetwork(config.task.candidates[name].kind, shape, recipe.fit.model_dump(mode="json"))
