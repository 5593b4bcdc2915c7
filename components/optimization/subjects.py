"""The graph that variants are built from, and the rows that measure them, read from a run's files."""

from dataclasses import dataclass

from components.optimization.core import TOLERANCE_SHARE
from components.optimization.forms import Form
from nightshift import tasks
from nightshift.contracts import package
from nightshift.contracts.optimization import ORIGINAL
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors
from nightshift.runtime.context import StepContext
from nightshift.tasks.base.optimization import OptimizationRows


@dataclass(frozen=True)
class Subject:
    """A graph to optimize.

    Attributes:
        original: trained graph.
        sample: calibration inputs, from training rows.
        rows: validation rows.
    """

    original: Form
    sample: Tensors
    rows: OptimizationRows


def read(context: StepContext) -> Subject:
    """Read the selected graph of the model, and its rows.

    Raises:
        UserError: when the files are not those of the manifest, or the features not what the model takes.
    """
    model, config, uri = context.model, context.config, context.args.model
    content = package.read_graph(uri, model, model.selected)
    limit = TOLERANCE_SHARE * config.evaluation.tolerance
    sample, rows = tasks.find(model.kind).optimization.read_samples(config, context.features, uri, model, limit)
    return Subject(Form(ORIGINAL, Graph(content), content), sample, rows)
