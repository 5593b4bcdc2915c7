"""Register a model, promote it where the verdicts allow, and serve the champion."""

import json
from dataclasses import dataclass
from typing import Any

from components.deployment import component, section
from nightshift import registry, storage, tasks
from nightshift.contracts import package
from nightshift.contracts.deployment import Deployment, DeploymentOutcome
from nightshift.contracts.release_record import Action, Entry, Release
from nightshift.contracts.section import write_section
from nightshift.contracts.state import DeploymentTarget, State
from nightshift.contracts.verdict import FILE, Verdict
from nightshift.costs.spending import Account
from nightshift.local import endpoint, examples
from nightshift.registry import Version, approvals, release_record
from nightshift.registry.promotion import Move, PromotionCase, VersionInfo
from nightshift.runtime.context import StepContext
from nightshift.runtime.lineage import code_version
from nightshift.runtime.progress import Patience
from nightshift.runtime.step import log, run


@dataclass(frozen=True)
class DeploymentResult:
    """What became of a version, seen from one state of the release record.

    Attributes:
        outcome: see `DeploymentOutcome`.
        reasons: why, one sentence each.
        live: the version that is the champion then.
        before: number of the champion before this run.
        served: the part of deployment.json about the endpoint.
        entry: the record's next state; None when it stays as it is.
    """

    outcome: DeploymentOutcome
    reasons: list[str]
    live: Version | None
    before: int | None
    served: dict[str, Any]
    entry: Entry | None


def body(context: StepContext) -> dict[str, float | str]:
    """Deploy; what was done goes to `--deployment`."""
    return deploy(context, endpoint.PATIENCE)


def deploy(context: StepContext, patience: Patience) -> dict[str, float | str]:
    """Deploy, and wait so long for the endpoint; the record changes once the version answers."""
    args = context.args
    endpoint.check(context.state)
    gates = tasks.find(context.model.kind).metrics.gates
    files = [(args.evaluation, FILE), *((args.evaluation, gate) for gate in gates), (args.drift, FILE)]
    verdicts = [Verdict.read(storage.join(folder, file)) for folder, file in files]
    settled: list[DeploymentResult] = []

    def decide(record: Release | None) -> Entry | None:
        settled.append(_settle(context, version, record, verdicts, patience))
        return settled[-1].entry

    with registry.lock(context.state.registry):
        version = _register(context, verdicts)
        log.info("%s: version %d is registered", version.name, version.version)
        release_record.change(release_record.ReleaseRef.from_state(context.state, version.name), decide)
        _note_waiting(context, version, settled[-1])
    caveats = [verdict.caveat for verdict in verdicts if verdict.caveat]
    record = _record(context.state, version, settled[-1], caveats)
    write_section(args.deployment, section.build(record))
    record.write(args.deployment)
    return record.model_dump(include={"model", "version", "sha256", "decision"}, mode="json")


def _settle(
    context: StepContext, version: Version, record: Release | None, verdicts: list[Verdict], patience: Patience
) -> DeploymentResult:
    """Decide what becomes of a version from the release record, and serve what is live then."""
    from components.deployment import core

    state, run_id = context.state, context.args.run
    case = _build_case(context, version, record, verdicts)
    decision = core.decide(case)
    outcome = core.outcome(decision, case.champion)
    log.info("%s: %s", outcome, " ".join(decision.reasons))
    promoted, number = decision.move is Move.PROMOTE, record.live.version if record else None
    kept = registry.find(state.registry, version.name, number) if number else None
    live = version if promoted else kept
    # before the record changes, so that a version that does not answer never becomes the champion
    served = _serve(context, live or version, patience, is_live=live is not None)
    changes = promoted and number != version.version
    entry = release_record.entry(Action.PROMOTED, version, run_id, decision.reasons) if changes else None
    if decision.move is Move.START and record and record.challenger is None:
        entry = release_record.challenge(record, version, run_id, decision.reasons)
    before = case.champion.version if case.champion else None
    return DeploymentResult(outcome, decision.reasons, live, before, served, entry)


def _note_waiting(context: StepContext, version: Version, settled: DeploymentResult) -> None:
    """Have the version wait for a person, or not any more, where a person has to approve it."""
    state = context.state
    if not context.config.release.needs_approval or state.target is DeploymentTarget.RECORD_ONLY:
        return
    ref, named = release_record.ReleaseRef.from_state(state, version.name), release_record.describe(version)
    champion = settled.live.sha256 if settled.live else None
    waits = settled.outcome is DeploymentOutcome.WAITING
    waiting = approvals.describe(named, champion, context.args.run, settled.reasons) if waits else None
    approvals.note(ref, version.version, waiting)


def _build_case(
    context: StepContext, version: Version, record: Release | None, verdicts: list[Verdict]
) -> PromotionCase:
    ref = release_record.ReleaseRef.from_state(context.state, version.name)
    champion = _before(context, version, record, verdicts)
    rolled_back = record is not None and version.version in record.rolled_back
    return PromotionCase(
        VersionInfo(version.version, version.sha256, version.tags[release_record.TRAINED_UNTIL], rolled_back),
        champion,
        verdicts,
        is_on_hold=context.state.target is DeploymentTarget.RECORD_ONLY,
        is_gradual=champion is not None and context.config.release.gradual,
        in_release=record.challenger.version if record and record.challenger else None,
        needs_approval=context.config.release.needs_approval
        and not approvals.is_approved(ref, version.sha256, champion.sha256 if champion else None),
    )


def _register(context: StepContext, verdicts: list[Verdict]) -> Version:
    from components.deployment import core

    config, model, args = context.config, context.model, context.args
    content = config.model_dump(mode="json")
    tags = core.lineage(model, verdicts, tasks.find(model.kind).metrics.promise) | {
        "config": json.dumps(content, sort_keys=True),
        "config_sha256": storage.fingerprint(content),
        "code_version": code_version(),
        "logical_date": str(context.day),
        registry.PARENT_RUN: args.run,
    }
    card = core.with_advice(storage.read_bytes(storage.join(args.evaluation, registry.CARD)).decode(), verdicts)
    measures = core.measures(verdicts) | _read_spending(context)
    return registry.register(context.state.registry, config.name, args.model, tags, measures, card)


def _read_spending(context: StepContext) -> dict[str, float]:
    """Return what the run has spent on this version, for the registry."""
    spent = Account.from_context(context).spent
    return {"run_machine_seconds": spent.seconds} | ({} if spent.usd is None else {"run_usd": spent.usd})


def _before(
    context: StepContext, version: Version, record: Release | None, verdicts: list[Verdict]
) -> VersionInfo | None:
    """Return the champion before this run: an attempt of it that was killed may have promoted its version."""
    if record is None:
        return None
    # a gate that was run since has compared the version with itself
    compared = any(verdict.compared_with and verdict.compared_with.sha256 == version.sha256 for verdict in verdicts)
    if record.live.sha256 != version.sha256 or record.run != context.args.run or compared:
        return VersionInfo.from_record(record.live)
    ref = release_record.ReleaseRef.from_state(context.state, version.name)
    number = release_record.predecessor(ref, record)
    champion = registry.find(ref.registry, ref.name, number) if number else None
    return (
        VersionInfo(champion.version, champion.sha256, champion.tags[release_record.TRAINED_UNTIL])
        if champion
        else None
    )


def _serve(context: StepContext, version: Version, patience: Patience, is_live: bool) -> dict[str, Any]:
    """Return the part of deployment.json about the endpoint."""
    state = context.state
    serves = state.target is DeploymentTarget.LOCAL and is_live
    model = package.load(version.uri)
    task = tasks.find(model.kind)
    online = task.examples.online_state(state.lake, version.name, model, context.args.features)
    example = task.examples.from_files(version.uri, model, online)
    if example is None and serves:
        example = examples.build_example(state, version.name, version.uri)
    if example is None:
        return {"endpoint": None, "endpoint_checked": False, "curl": None, "example": {}}
    silent = {"endpoint": None, "endpoint_checked": False, "curl": None, "example": example.deployment_event}
    if not serves:
        return silent
    beside = endpoint.find_challenger(state.registry, version)
    server = endpoint.start_or_update(state, version, example, challenger=beside, patience=patience)
    log.info("%s answers with version %d", server.url, version.version)
    answering = {"endpoint": server.url, "endpoint_checked": True, "curl": example.curl(server.url)}
    return silent | answering | {"engine": task.serving.find_url(state.registry, version.name)}


def _record(state: State, version: Version, settled: DeploymentResult, caveats: list[str]) -> Deployment:
    return Deployment(
        model=version.name,
        version=version.version,
        sha256=version.sha256,
        decision=settled.outcome,
        reasons=settled.reasons,
        caveats=caveats,
        champion_version=settled.live and settled.live.version,
        previous_champion_version=settled.before,
        registry=state.registry,
        target=state.target,
        **settled.served,
    )


if __name__ == "__main__":
    run(component.deployment.parser(), body)
