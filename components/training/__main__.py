"""Flags in, files out: see `components/training/__init__.py`."""

import os
from argparse import Namespace

from components.common import splits, step
from components.common.config import parse
from components.common.contracts import package, tables
from components.common.contracts.section import write_section
from components.common.lineage import code_version
from components.common.splits import Days
from components.training import section


def parser() -> step.Parser:
    """Return the step's flags."""
    return (
        step.Parser("training", "Fit the candidates, choose one on the validation days, write them as ONNX.")
        .takes_device()
        .takes(
            config="the use case's config (JSON)",
            date="logical date, YYYY-MM-DD",
            features="URI of the features manifest",
            model="URI of the folder to write",
        )
    )


def body(args: Namespace) -> dict[str, float | None]:
    """Train and save; of several processes that torchrun has started, in the first one only."""
    if (rank := os.environ.get("RANK", "0")) != "0":
        step.log.info("rank %s of %s has nothing to do: rank 0 trains alone", rank, os.environ.get("WORLD_SIZE"))
        return {}
    config, day = parse(args.config), splits.parse_date(args.date)
    from components.neural import devices
    from components.training import core

    devices.torch_device(args.device)
    plan, table = splits.plan(config, day), tables.read_table(args.features)
    setting = core.Setting(config, table.details["numeric"], table.details["categorical"], args.device)
    columns = ["event_time", "customer", "label", *setting.numeric, *setting.categorical]
    features = table.read(Days(plan.validation.train.first, plan.test.train.last), columns)
    lineage = {"features_sha256": table.sha256, "events_sha256": table.details["events_sha256"]}
    lineage["code_version"] = code_version()
    trained = core.train(setting, plan, features, lineage)
    write_section(args.model, section.build(trained.package, config.evaluation.top_k))
    package.save(args.model, trained.package, trained.graphs, trained.reference)
    measured = trained.package.candidates[trained.package.selected].validation
    return {name: measured[name] for name in ("auc_roc", "average_precision", "precision_at_k")}


if __name__ == "__main__":
    step.run(parser(), body)
