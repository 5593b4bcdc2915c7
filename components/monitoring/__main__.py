"""Flags in, files out: see `components/monitoring/__init__.py`."""

from dataclasses import asdict
from datetime import date

from components.monitoring import component, core, section
from components.monitoring.core import AuditEntry
from nightshift import storage
from nightshift.contracts import drift
from nightshift.contracts.request import RetrainingRequest
from nightshift.contracts.section import write_section
from nightshift.contracts.state import DeploymentTarget
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError


def body(context: StepContext) -> dict[str, float | str]:
    """Decide, write the day's audit entry if it has none, then the request."""
    args, config, day, state = context.args, context.config, context.day, context.state
    figures = drift.DriftReport.read(storage.join(args.drift, drift.FILE))
    if figures.window.last != day:
        raise UserError(f"the drift is that of {figures.window.last}, not {day}; check that day's drift")
    log = _log(storage.join(state.audit, config.name), day)
    seen = core.Observation(config.name, day, figures.model_sha256, figures.signals)
    entry = core.decide(seen, log, config.controller, state.target is DeploymentTarget.RECORD_ONLY)
    audit = storage.join(state.audit, config.name, f"{day}.json")
    if entry not in log:
        storage.write_json(audit, asdict(entry))
    write_section(args.request, section.build(entry, log, audit))
    step.log.info("%s: %s", "retrain" if entry.retrain else "no retraining", entry.reason)
    RetrainingRequest(retrain=entry.retrain, reason=entry.reason, key=entry.key).write(args.request)
    return {"retrain": float(entry.retrain), "key": entry.key, "reason": entry.reason}


def _log(folder: str, until: date) -> list[AuditEntry]:
    """Read the entries of the days up to and including one, oldest first."""
    days = [name for name in storage.names(folder) if name.endswith(".json") and name <= f"{until}.json"]
    return [AuditEntry(**storage.read_json(storage.join(folder, name))) for name in days]


if __name__ == "__main__":
    step.run(component.monitoring.parser(), body)
