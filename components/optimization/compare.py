"""`python -m components.optimization.compare`: finds the fastest variant of a graph, for `nightshift optimize`."""

from components.optimization import component
from nightshift import storage
from nightshift.contracts import optimization as contract
from nightshift.models.tensors import row_count
from nightshift.runtime import step
from nightshift.runtime.context import StepContext


def body(context: StepContext) -> None:
    """Build and measure the variants, and write the result."""
    from components.optimization import core, forms, subjects

    subject = subjects.read(context)
    every = [subject.original, *forms.make_forms(subject.original.content, subject.sample)]
    count = row_count(subject.rows.inputs)
    step.log.info(
        "measuring %d forms of %s on %d rows", sum(bool(form.graph) for form in every), context.model.selected, count
    )
    attempts = core.attempts(every, subject.rows)
    fastest = core.best(attempts).name
    chosen = next(form for form in every if form.name == fastest)
    core.summarize(context.model, chosen, attempts, subject.rows).write(
        storage.join(context.args.result, contract.FILE)
    )


if __name__ == "__main__":
    step.run(component.comparison.parser(), body)
