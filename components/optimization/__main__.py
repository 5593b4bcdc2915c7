"""Flags in, files out: see `components/optimization/__init__.py`."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from components.common import splits, step, storage
from components.common.config import parse
from components.common.contracts import optimization as contract
from components.common.contracts import package, tables, verdict
from components.common.contracts.optimization import ORIGINAL, Attempt, Optimization
from components.common.contracts.package import ModelPackage
from components.common.contracts.section import write_section
from components.common.splits import Days
from components.optimization import section

if TYPE_CHECKING:
    import pandas as pd

    from components.optimization.core import Inputs, Measured
    from components.optimization.forms import Form

Measure = Callable[[Sequence["Form"], "Measured"], list[Attempt]]
SAMPLE = 256  # images or texts by which scales are chosen


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

    model = package.load(args.model)
    sample, rows = _of_classes(args, model) if model.has_classes else _tabular(args, model)
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
        package.save(args.optimized, new, {new.selected: form.content}, _reference(args, model, form))
    one, many = best.latencies
    return {"form": best.name, "single_ms": one.median_ms, "many_ms": many.median_ms}


def _forms(uri: str, model: ModelPackage, sample: "Inputs") -> "list[Form]":
    """Return the original, as it is served, and all other forms, whose scales come from a sample of inputs."""
    from components.common.graph import Graph
    from components.optimization.forms import Form, made

    content = package.read_graph(uri, model, model.selected)
    return [Form(ORIGINAL, Graph(content), content), *made(content, sample)]


def _reference(args: Namespace, model: ModelPackage, form: "Form") -> "pd.DataFrame":
    """Return the sample that drift is measured against, as the form sees it where that is part of it."""
    sample, days = package.read_reference(args.model), model.lineage.reference
    if days is None:
        return sample
    import pandas as pd

    from components.classes import shards, watched

    assert form.graph is not None
    items = shards.Items.of(tables.read_table(args.features), Days(days.first, days.last))
    kept, all_rows = (pd.MultiIndex.from_frame(each[watched.KEYS]) for each in (sample, items.rows))
    rows = items.rows[all_rows.isin(kept)]
    return watched.reference(rows, items, model.classes, form.graph)


def _of_classes(args: Namespace, model: ModelPackage) -> "tuple[Inputs, Measured]":
    """Return a sample of the training rows' inputs, and the validation rows, where a task has classes."""
    from components.classes import bootstrap, shards
    from components.optimization.classes import Rows
    from components.optimization.core import TENTH

    config, table = parse(args.config), tables.read_table(args.features)
    train, fold = model.lineage.train, splits.fold(config, model.lineage.validation.last)
    shards.check(table, model.classes)
    seen = shards.Items.of(table, Days(train.first, train.last))
    sample = seen.inputs(seen.rows.iloc[:: -(-len(seen.rows) // SAMPLE)])
    items = shards.Items.of(table, Days(fold.train.first, fold.test.last))
    rows = items.unseen(fold)
    known, limit = shards.labels(rows, config.classes.classes), TENTH * config.evaluation.tolerance
    return sample, Rows(items.inputs(rows), known, bootstrap.groups(rows), limit)


def _tabular(args: Namespace, model: ModelPackage) -> "tuple[Inputs, Measured]":
    """Return a sample of the training rows' inputs, and the validation rows."""
    from components.optimization.core import TENTH, Rows
    from components.tabular import inputs

    sample = package.read_reference(args.model).dropna(subset=model.tabular.columns)
    config = parse(args.config)
    fold = splits.fold(config, model.lineage.validation.last)
    columns = ["event_time", "customer", "label", *model.tabular.columns]
    history = tables.read_table(args.features).read(Days(fold.train.first, fold.test.last), columns)
    rows = splits.test_rows(history, fold, config.protocol.drop_compromised)
    labels = rows["label"].to_numpy(dtype="int8")
    limit = TENTH * config.evaluation.tolerance
    measured = Rows(inputs.matrix(model.tabular, rows), labels, model.threshold, limit)
    return inputs.matrix(model.tabular, sample), measured


if __name__ == "__main__":
    step.run(parser(), body)
