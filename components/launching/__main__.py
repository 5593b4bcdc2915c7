"""Flags in, files out: see `components/launching/__init__.py`."""

import json
from datetime import UTC, date, datetime

from components.launching import component, core, section
from nightshift.contracts.request import Launch, RetrainingRequest
from nightshift.contracts.section import write_section
from nightshift.data.splits import last_complete_day
from nightshift.runtime import step
from nightshift.runtime.context import StepContext


def body(context: StepContext) -> dict[str, float]:
    """Start the run if it is asked for and not there yet, and write what became of it."""
    args = context.args
    day = context.day if args.date else last_complete_day(datetime.now(UTC))
    request = RetrainingRequest.read(args.request) if args.request else None
    reason = request.reason if request else "The clock asks."
    if request and not request.retrain:
        launch = Launch(new=False, outcome="nothing is started", reason=reason)
    else:
        launch = _launch(context, day, reason)
    step.log.info("%s: %s", launch.outcome, reason)
    write_section(args.launch, section.build(launch))
    launch.write(args.launch)
    return {"started": float(launch.new)}


def _launch(context: StepContext, day: date, reason: str) -> Launch:
    """Start the pipeline with this step's own parameters, or say how to start it where there is no Kubeflow."""
    args, state, config = context.args, context.state, context.config
    if not state.kubeflow:
        command = f"nightshift run {args.pipeline} --config {config.name} --date {day}"
        return Launch(new=False, outcome=f"no Kubeflow here; run: {command}", reason=reason)
    from nightshift.cluster.kubeflow import KubeflowApi, KubeflowTarget

    server = KubeflowApi(KubeflowTarget.parse(state.kubeflow))
    definition = server.find_newest(args.pipeline)
    known = {"data": args.data, "device": context.device, "config": json.loads(args.config), "date": str(day)}
    known["state"] = state.dump()
    values = core.arguments(args.pipeline, definition.parameters, known)
    run = server.submit(core.run_name(args.pipeline, config.name, day), definition, values)
    message = f"{run.name} {'is started' if run.new else 'is there already'}: {run.url}"
    return Launch(new=run.new, run=run.name, run_id=run.run_id, url=run.url, outcome=message, reason=reason)


if __name__ == "__main__":
    step.run(component.retraining.parser(), body)
