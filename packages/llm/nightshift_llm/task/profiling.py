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
from nightshift.tasks.classification.profiling import STEPS
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.protocol import TrainingSetup
from nightshift_llm.config import LanguageConfig
from nightshift_llm.task import candidates, documents, training
from nightshift_llm.task.training import DocumentSample


@dataclass(frozen=True)
class DocumentFit:
    """A candidate.

    Attributes:
        name: of the candidate.
        sample: the training texts.
    """

    batch: ClassVar = 8
    is_network: ClassVar = True
    name: str
    sample: DocumentSample

    @property
    def kind(self) -> str:
        """The recipe."""
        return self.sample.setting.task.candidates[self.name].kind

    @property
    def device(self) -> str:
        """Where it is trained."""
        return self.sample.setting.device

    @cached_property
    def inputs(self) -> Tensors:
        """What its graph takes of the training texts."""
        return by_name(documents.cut_rows(documents.read_tokens(self.sample.rows), self.sample.preprocessing)[0])

    def fit(self) -> Fitted:
        """Fit it, as the training does."""
        return self.sample.fit(self.name)

    def brief(self) -> Callable[[], Fitted]:
        """Return a fit of an epoch of the first texts, which take `STEPS` steps or fewer."""
        task = self.sample.setting.task
        candidate = task.candidates[self.name]
        brief = candidate.model_copy(update={"parameters": {**candidate.parameters, "epochs": 1}})
        setting = replace(self.sample.setting, task=task.model_copy(update={"candidates": {self.name: brief}}))
        rows = self.sample.rows.head(STEPS * candidates.recipe(setting.task, self.name).fit.batch_size)
        return partial(candidates.fit, setting, self.name, rows)


def selected_fit(
    setup: TrainingSetup[LanguageConfig],
    model: ModelPackage,
    phase: Callable[[PhaseName], AbstractContextManager[None]],
) -> DocumentFit:
    """Return the fit of a model's selected candidate, with the parameters of the config, on the training texts."""
    with phase(PhaseName.READ):
        fit = DocumentFit(model.selected, training.rows(setup).sample(setup.plan.test))
    with phase(PhaseName.MATRIX):
        assert row_count(fit.inputs)
    return fit


def network(config: LanguageConfig, name: str, _: int | None) -> ConfiguredNetwork:
    """Return a network among the candidates of a config.

    Raises:
        UserError: when its recipe refuses a parameter.
    """
    recipe = candidates.recipe(config.task, name)
    shape = {"vocabulary": recipe.vocabulary, "start": recipe.start, "length": recipe.length}
    return ConfiguredNetwork(config.task.candidates[name].kind, shape, recipe.fit.model_dump(mode="json"))
