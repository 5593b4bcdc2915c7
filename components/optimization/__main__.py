"""Flags in, files out: see `components/optimization/__init__.py`."""

from typing import TYPE_CHECKING

from components.optimization import section
from nightshift import step, storage, tasks
from nightshift.context import StepContext
from nightshift.contracts import optimization as contract
from nightshift.contracts import package, verdict
from nightshift.contracts.optimization import ORIGINAL, Optimization
from nightshift.contracts.section import write_section
from nightshift.tensors import row_count

if TYPE_CHECKING:
    from components.optimization.forms import Form


def parser() -> step.StepParser:
    """Return the step's flags."""
    return step.StepParser("optimization", "Serve the selected graph in the form that the config names.").takes(
        config="the use case's config (JSON)",
        features="URI of the features manifest",
        model="URI of the model",
        optimized="URI of the model to write",
    )


def body(context: StepContext) -> dict[str, str]:
    """Make the form, have it judged, and write the package with it, or as it was."""
    from components.optimization import core

    args = context.args
    name = context.config.optimization.form
    form, result = (None, core.keep_original(context.model)) if name == ORIGINAL else _judge_form(context, name)
    judged = core.verdict(result)
    step.log.info("%s", judged.reasons[0])
    judged.write(storage.join(args.optimized, verdict.FILE))
    result.write(storage.join(args.optimized, contract.FILE))
    write_section(args.optimized, section.build(result, judged))
    package.copy(args.model, args.optimized)
    if form and result.chosen == form.name:
        _write(context, form)
    return {"form": result.chosen}


def _judge_form(context: StepContext, name: str) -> "tuple[Form, Optimization]":
    """Return a form of the model, and what it loses on the validation rows."""
    from components.optimization import core, forms, subjects

    subject = subjects.read(context)
    form = forms.make_form(name, subject.original.content, subject.sample)
    step.log.info("judging %s of %s on %d rows", name, context.model.selected, row_count(subject.rows.inputs))
    attempts = core.judge_by_loss(subject.original, form, subject.rows)
    chosen = form if attempts[-1].accepted else subject.original
    return form, core.summarize(context.model, chosen, attempts, subject.rows)


def _write(context: StepContext, form: "Form") -> None:
    """Write the package with a form as the graph of its selected candidate."""
    from components.optimization import core

    assert form.graph is not None
    args, changed = context.args, core.replace_graph(context.model, form)
    task = tasks.find(context.model.kind).optimization
    reference = task.reference(context.features, args.model, context.model, form.graph)
    package.save(args.optimized, changed, {changed.selected: form.content}, reference)


if __name__ == "__main__":
    step.run(parser(), body)
