"""Runs the step: see `components/optimization/__init__.py`."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from components.optimization import component, section
from nightshift import storage, tasks
from nightshift.contracts import optimization as contract
from nightshift.contracts import package, verdict
from nightshift.contracts.optimization import ORIGINAL, EngineVariant, Optimization
from nightshift.contracts.package import File, Format, ModelPackage
from nightshift.contracts.section import write_section
from nightshift.models.tensors import row_count
from nightshift.runtime import step
from nightshift.runtime.context import StepContext

if TYPE_CHECKING:
    from components.optimization.forms import Form


def body(context: StepContext) -> dict[str, str]:
    """Build and judge the graph variant and the GGUF file, and write the package with those that pass."""
    from components.optimization import core

    args = context.args
    name = context.config.optimization.form
    form, result = (None, core.keep_original(context.model)) if name == ORIGINAL else _judge_form(context, name)
    changed = core.replace_graph(context.model, form) if form else context.model
    changed = core.add_answer_files(changed, _write_answer_files(context, form))
    variants, file = _write_engine_file(context)
    changed = core.add_engine_file(changed, file) if file else changed
    result = core.add_engine_variants(result, changed, variants)
    judged = core.verdict(result)
    for reason in judged.reasons:
        step.log.info("%s", reason)
    judged.write(storage.join(args.optimized, verdict.FILE))
    result.write(storage.join(args.optimized, contract.FILE))
    write_section(args.optimized, section.build(result, judged))
    _write_package(context, changed, form)
    return {"form": result.chosen}


def _judge_form(context: StepContext, name: str) -> "tuple[Form | None, Optimization]":
    """Return a variant of the model's graph, None if it loses too much, and the result on the validation rows."""
    from components.optimization import core, forms, subjects

    subject = subjects.read(context)
    form = forms.make_form(name, subject.original.content, subject.sample)
    step.log.info("judging %s of %s on %d rows", name, context.model.selected, row_count(subject.rows.inputs))
    attempts = core.judge_by_loss(subject.original, form, subject.rows)
    accepted = form if attempts[-1].accepted else None
    return accepted, core.summarize(context.model, accepted or subject.original, attempts, subject.rows)


def _write_engine_file(context: StepContext) -> tuple[list[EngineVariant], File | None]:
    """Write and judge GGUF files for engines; copy the accepted one into the package."""
    from components.optimization import core

    args, task = context.args, tasks.find(context.model.kind).optimization
    with tempfile.TemporaryDirectory() as folder:
        variants = task.engine_variants(context.config, context.features, args.model, context.model, Path(folder))
        chosen = core.choose_engine_variant(variants)
        if chosen is None:
            return variants, None
        assert chosen.file is not None
        assert chosen.size is not None
        sha256 = storage.copy(str(Path(folder, chosen.file)), storage.join(args.optimized, chosen.file))
    return variants, File(name=chosen.file, sha256=sha256, size=chosen.size, format=Format.GGUF)


def _write_answer_files(context: StepContext, form: "Form | None") -> list[File]:
    """Write the files by which requests are answered besides the graph that will be served."""
    args, task = context.args, tasks.find(context.model.kind).optimization
    files = task.answer_files(context.features, args.model, context.model, form.content if form else None)
    return [package.write_file(args.optimized, name, content) for name, content in files]


def _write_package(context: StepContext, changed: ModelPackage, form: "Form | None") -> None:
    """Write the package with its changed manifest, and a form as the graph of its selected candidate."""
    args = context.args
    unchanged = [file.name for file in context.model.files if file in changed.files]
    package.copy(args.model, args.optimized, only=unchanged)
    if form is None:
        changed.write(storage.join(args.optimized, package.MANIFEST))
        return
    assert form.graph is not None
    task = tasks.find(context.model.kind).optimization
    reference = task.reference(context.features, args.model, context.model, form.graph)
    package.save(args.optimized, changed, {changed.selected: form.content}, reference)


if __name__ == "__main__":
    step.run(component.optimization.parser(), body)
