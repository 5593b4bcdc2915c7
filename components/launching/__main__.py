"""Flags in, files out: see `components/launching/__init__.py`."""

import json
from argparse import Namespace
from datetime import UTC, date, datetime
from typing import Any

from components.common import step, storage
from components.common.config import parse
from components.common.contracts.section import write_section
from components.common.splits import last_complete_day, parse_date
from components.launching import section

PARAMETERS = ("data", "device", "lake", "registry", "runs", "audit", "target")


def parser() -> step.Parser:
    """Return the step's flags."""
    flags = step.Parser("launching", "Start a pipeline on Kubeflow, once for a day.").takes_device()
    flags.add_argument("--date", help="logical date, YYYY-MM-DD (default: the last complete UTC day)")
    flags.add_argument("--request", help="URI of monitoring's request: without one that asks, nothing is started")
    return flags.takes(
        pipeline="name of the uploaded pipeline",
        kubeflow="endpoint, experiment and namespace (JSON); {} where there is no Kubeflow",
        config="the use case's config (JSON)",
        data="where the raw events lie",
        lake="root of the tables by day",
        registry="root of the model registry",
        runs="root of the run summaries",
        audit="root of the audit log",
        target="where models are deployed",
        launch="URI of the outcome to write",
    )


def body(args: Namespace) -> dict[str, float]:
    """Start the run if it is asked for and not there yet, and write what became of it."""
    day = parse_date(args.date) if args.date else last_complete_day(datetime.now(UTC))
    request = storage.read_json(args.request) if args.request else {"retrain": True, "reason": "The clock asks."}
    nothing: dict[str, Any] = {"new": False, "said": "nothing is started"}
    outcome = _launched(args, day) if request["retrain"] else nothing
    step.log.info("%s: %s", outcome["said"], request["reason"])
    write_section(args.launch, section.build(outcome))
    storage.write_json(args.launch, outcome | {"reason": request["reason"]})
    return {"started": float(outcome["new"])}


def _launched(args: Namespace, day: date) -> dict[str, Any]:
    """Start the pipeline with this step's own parameters, or say how to start it where there is no Kubeflow."""
    place = json.loads(args.kubeflow)
    if not place:
        return {"new": False, "said": f"no Kubeflow here; run: nightshift run {args.pipeline} --date {day}"}
    from components.common.kubeflow import Place, Server
    from components.launching import core

    config = parse(args.config)
    server = Server(Place.parse(place))
    definition = server.newest(args.pipeline)
    known = {name: getattr(args, name) for name in PARAMETERS}
    known |= {"config": json.loads(args.config), "date": str(day), "kubeflow": place}
    values = core.arguments(args.pipeline, definition.parameters, known)
    run = server.submit(core.run_name(args.pipeline, config.name, day), definition, values)
    said = f"{run.name} {'is started' if run.new else 'is there already'}: {run.url}"
    return {"new": run.new, "run": run.name, "run_id": run.run_id, "url": run.url, "said": said}


if __name__ == "__main__":
    step.run(parser(), body)
