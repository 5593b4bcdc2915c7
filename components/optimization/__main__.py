"""Flags in, files out: see `components/optimization/__init__.py`."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from components.optimization import section
from nightshift import step, storage, tasks
from nightshift.context import StepContext
from nightshift.contracts import optimization as contract
from nightshift.contracts import package, verdict
from nightshift.contracts.optimization import ORIGINAL, Attempt, Optimization
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import write_section
from nightshift.tasks.protocol import OptimizationRows

if TYPE_CHECKING:
    from components.optimization.core import Inputs
    from components.optimization.forms import Form

Measure = Callable[[Sequence["Form"], OptimizationRows], list[Attempt]]


def parser() -> step.Parser:
    """Return the step's flags."""
    return step.Parser("optimization", "Find a form of the selected graph that scores the same, faster.").takes(
        config="the use case's config (JSON)",
        features="URI of the features manifest",
        model="URI of the model",
        optimized="URI of the model to write",
    )


def body(args: Namespace) -> dict[str, float | str]:
    """Make the forms, measure them, and write the package."""
    from components.optimization import core

    return optimize(args, core.attempts)


def optimize(args: Namespace, measure: Measure) -> dict[str, float | str]:
    """Make the forms of the selected graph, have them measured, and write the package with the best one.

    Args:
        args: the flags.
        measure: forms, the original first, and rows -> an attempt each.
    """
    from components.optimization import core

    context = StepContext(args)
    config, model, features = context.config, context.model, context.features
    task, limit = tasks.find(model.kind).optimization, core.TENTH * config.evaluation.tolerance
    sample, rows = task.rows(config, features, args.model, model, limit)
    forms, count = _forms(args.model, model, sample), len(rows.inputs)
    step.log.info("measuring %d forms of %s on %d rows", sum(bool(each.graph) for each in forms), model.selected, count)
    tried = measure(forms, rows)
    best = core.best(tried)
    kept = best.name == ORIGINAL
    form = next(each for each in forms if each.name == best.name)
    new = model if kept else core.replaced(model, form)
    found = Optimization(
        candidate=model.selected,
        original_sha256=model.sha256,
        sha256=new.sha256,
        rows=count,
        metric=rows.metric,
        limit=rows.limit,
        attempts=tried,
        chosen=best.name,
    )
    judged = core.verdict(found)
    step.log.info("%s", judged.reasons[0])
    judged.write(storage.join(args.optimized, verdict.FILE))
    found.write(storage.join(args.optimized, contract.FILE))
    write_section(args.optimized, section.build(found, judged))
    package.copy(args.model, args.optimized)
    if not kept:
        assert form.graph is not None
        reference = task.reference(features, args.model, model, form.graph)
        package.save(args.optimized, new, {new.selected: form.content}, reference)
    one, many = best.latencies
    return {"form": best.name, "single_ms": one.median_ms, "many_ms": many.median_ms}


def _forms(uri: str, model: ModelPackage, sample: "Inputs") -> "list[Form]":
    """Return the original, as it is served, and all other forms, whose scales come from a sample of inputs."""
    from components.optimization.forms import Form, made
    from nightshift.graph import Graph

    content = package.read_graph(uri, model, model.selected)
    return [Form(ORIGINAL, Graph(content), content), *made(content, sample)]


if __name__ == "__main__":
    step.run(parser(), body)
