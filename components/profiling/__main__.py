"""Flags in, files out: see `components/profiling/__init__.py`."""

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from components.common import splits, step, storage
from components.common.config import Config, parse
from components.common.config.classes import Classes
from components.common.contracts import package, profile, tables
from components.common.contracts.package import ModelPackage
from components.common.contracts.profile import PhaseName
from components.common.contracts.section import write_section
from components.common.dates import parse_date
from components.common.splits import Days
from components.profiling import alone, section

if TYPE_CHECKING:
    from components.profiling.core import Trained, Watch


def parser() -> step.Parser:
    """Return the step's flags."""
    return (
        step.Parser("profiling", "Measure the training of the selected model.")
        .takes_device()
        .takes(
            config="the use case's config (JSON)",
            date="logical date, YYYY-MM-DD",
            features="URI of the features manifest",
            model="URI of the model",
            profile="URI of the folder to write",
        )
    )


def body(args: Namespace) -> dict[str, float]:
    """Measure and save."""
    config, day = parse(args.config), parse_date(args.date)
    # its log holds nothing for the reader of a step's log; read when PyTorch is imported
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from components.neural import devices
    from components.profiling import core

    devices.torch_device(args.device)
    model = package.load(args.model)
    watch = core.Watch(args.device == "cuda")
    table, days = tables.read_table(args.features), splits.plan(config, day).test.train
    if isinstance(config.task, Classes):
        subject = _network(config, args.device, model, (table, days), watch)
    else:
        subject = _candidate(config, args.device, model, (table, days), watch)
    count = len(subject.inputs)
    step.log.info("fitting %s again, on %d rows of %s, on %s", model.selected, count, days, args.device)
    found, trace = core.measure(subject, watch, model.graph(model.selected).sha256)
    step.log.info("%.0f rows per second. %s", found.rows_per_second, found.diagnosis)
    storage.write_bytes(storage.join(args.profile, profile.TRACE), trace)
    write_section(args.profile, section.build(found))
    found.write(storage.join(args.profile, profile.FILE))
    one, many = found.scoring
    return {
        "rows_per_second": found.rows_per_second,
        "data_wait_share": found.data_wait_share,
        "scored_rows_per_second": many.rows_per_second,
        "single_rows_per_second": one.rows_per_second,
    }


def _candidate(
    config: Config, device: str, model: ModelPackage, rows: tuple[tables.Table, Days], watch: "Watch"
) -> "Trained":
    """Return the selected candidate of a table's rows, and measure what comes before its fit."""
    from components.profiling import core
    from components.tabular import inputs

    table, days = rows
    with watch.phase(PhaseName.READ):
        frame = table.read(days, ["label", *model.tabular.columns])
    with watch.phase(PhaseName.MATRIX):
        matrix, labels = inputs.matrix(model.tabular, frame), frame["label"].to_numpy(dtype="int8")
    return core.selected(model, config.tabular, device, (matrix, labels))


def _network(
    config: Config, device: str, model: ModelPackage, rows: tuple[tables.Table, Days], watch: "Watch"
) -> "Trained":
    """Return the selected model of images or texts, and measure what comes before its fit."""
    from components.classes.shards import Items
    from components.profiling.classes import Subject

    with watch.phase(PhaseName.READ):
        items = Items.of(*rows)
    subject = Subject.of(config.classes, device, model.selected, items)
    with watch.phase(PhaseName.MATRIX):
        assert len(subject.inputs) == len(items.rows)
    return subject


if __name__ == "__main__":
    if alone.is_asked(sys.argv[1:]):
        step.run(alone.parser(), alone.body)
    else:
        step.run(parser(), body)
