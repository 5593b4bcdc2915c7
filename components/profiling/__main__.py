"""Flags in, files out: see `components/profiling/__init__.py`."""

import os
import tempfile
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from components.common import splits, step, storage
from components.common.config import Config, parse
from components.common.contracts import tables

if TYPE_CHECKING:
    import torch

    from components.tabular.mlp import Parameters


def parser() -> step.Parser:
    """Return the step's flags."""
    return (
        step.Parser("profiling", "Measure the MLP's training loop.")
        .takes_device()
        .takes(
            config="the use case's config (JSON)",
            date="logical date, YYYY-MM-DD",
            features="URI of the features manifest",
            profile="URI of the folder to write",
        )
    )


def body(args: Namespace) -> dict[str, float]:
    """Measure and save."""
    config, day = parse(args.config), splits.parse_date(args.date)
    # its log holds nothing for the reader of a step's log; read when PyTorch is imported
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from components.common.contracts.section import write_section
    from components.profiling import core, section
    from components.tabular import inputs, mlp

    device, parameters = mlp.torch_device(args.device), _parameters(config)
    table, days = tables.read_table(args.features), splits.plan(config, day).test.train
    names = table.details["numeric"], table.details["categorical"]
    rows = table.read(days, ["label", *names[0], *names[1]])
    step.log.info("measuring the MLP's training on %d rows of %s, on %s", len(rows), days, args.device)
    matrix = inputs.matrix(inputs.seen_in(rows, *names), rows)
    profile, profiler = core.measure(matrix, rows["label"].to_numpy(dtype="int8"), parameters, device)
    step.log.info("%.0f rows a second. %s", profile.rows_per_second, profile.diagnosis)
    storage.write_bytes(storage.join(args.profile, "trace.json.gz"), _trace(profiler))
    write_section(args.profile, section.build(profile))
    storage.write_json(storage.join(args.profile, "profile.json"), asdict(profile))
    return {"rows_per_second": profile.rows_per_second, "data_wait_share": profile.data_wait_share}


def _parameters(config: Config) -> "Parameters":
    """Return the parameters of the config's first MLP, the defaults when it has none."""
    from components.tabular import mlp

    for name, model in config.task.candidates.items():
        if model.kind == "mlp":
            return mlp.parameters(f"task.candidates.{name}.parameters", model.parameters)
    step.log.info("the config has no model of kind mlp; measuring one with default parameters")
    return mlp.Parameters()


def _trace(profiler: "torch.profiler.profile") -> bytes:
    """Return the Chrome trace, compressed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json.gz"
        profiler.export_chrome_trace(str(path))
        return path.read_bytes()


if __name__ == "__main__":
    step.run(parser(), body)
