"""Register a model, promote it where the verdicts allow, and serve the champion."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from components.common import storage
from components.common.config import Config, parse
from components.common.contracts.state import State, Target
from components.common.splits import parse_date
from components.common.step import Parser, log, run

if TYPE_CHECKING:
    from components.common.contracts.verdict import Verdict
    from components.common.registry import Version
    from components.deployment.core import Candidate


def parser() -> Parser:
    """Return the step's flags."""
    return Parser("deployment", "Register a model, promote it where the verdicts allow, serve the champion.").takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        model="folder of the model",
        evaluation="folder of the evaluation",
        drift="folder of the drift step",
        state="where things are kept (JSON)",
        run="id of the run, for the lineage",
        deployment="deployment.json to write",
    )


def body(args: argparse.Namespace) -> dict[str, float]:
    """Deploy; what was done goes to `--deployment`."""
    from components.common import registry
    from components.common.contracts.deployment import Deployment, Outcome
    from components.common.contracts.section import write_section
    from components.common.contracts.verdict import FILE, Verdict
    from components.deployment import core, endpoint, section

    config, state = parse(args.config), State.parse(args.state)
    endpoint.check(state)
    verdicts = [Verdict.read(storage.join(uri, FILE)) for uri in (args.evaluation, args.drift)]
    with registry.exclusive(state.registry):
        champion = registry.champion(state.registry, config.name)
        version = _register(args, config, verdicts)
        log.info("%s: version %d is registered", config.name, version.version)
        before = _before(args, champion, version, verdicts)
        decision = core.decide(_candidate(version), _candidate(before) if before else None, verdicts)
        if state.target is Target.RECORD_ONLY:
            decision = core.unpromoted(decision, before is not None)
        log.info("%s: %s", decision.outcome, " ".join(decision.reasons))
        live = version if decision.outcome is Outcome.PROMOTED else champion
        served = _serve(state, live or version, is_live=live is not None)
        # only now, so that a version that does not answer never becomes the champion
        if decision.outcome is Outcome.PROMOTED:
            registry.promote(state.registry, config.name, version.version)
    record = Deployment(
        model=version.name,
        version=version.version,
        sha256=version.sha256,
        decision=decision.outcome,
        reasons=decision.reasons,
        champion_version=live and live.version,
        previous_champion_version=before and before.version,
        registry=state.registry,
        target=state.target,
        **served,
    )
    write_section(args.deployment, section.build(record))
    record.write(args.deployment)
    return {"version": version.version}


def _register(args: argparse.Namespace, config: Config, verdicts: "list[Verdict]") -> "Version":
    from components.common import registry
    from components.common.contracts import package
    from components.common.lineage import code_version
    from components.deployment import core

    content = config.model_dump(mode="json")
    tags = core.lineage(package.load(args.model), verdicts) | {
        "config": json.dumps(content, sort_keys=True),
        "config_sha256": storage.fingerprint(content),
        "code_version": code_version(),
        "logical_date": str(parse_date(args.date)),
        "parent_run": args.run,
    }
    card = core.with_advice(storage.read_bytes(storage.join(args.evaluation, registry.CARD)).decode(), verdicts)
    where = State.parse(args.state).registry
    return registry.register(where, config.name, args.model, tags, core.measures(verdicts), card)


def _before(
    args: argparse.Namespace, champion: "Version | None", version: "Version", verdicts: "list[Verdict]"
) -> "Version | None":
    """Return the champion before this run: an attempt of it that was killed may have promoted its version."""
    from components.common import registry

    is_live = champion is not None and champion.version == version.version
    # a gate that was run since has compared the version with itself
    compared = any(each.compared_with and each.compared_with.sha256 == version.sha256 for each in verdicts)
    if is_live and not compared and version.tags.get("parent_run") == args.run:
        return registry.predecessor(State.parse(args.state).registry, version.name)
    return champion


def _candidate(version: "Version") -> "Candidate":
    from components.deployment.core import Candidate

    tags = version.tags
    return Candidate(version.version, version.sha256, tags["train_last"], "rolled_back_at" in tags)


def _serve(state: State, version: "Version", is_live: bool) -> dict[str, Any]:
    """Return the part of deployment.json about the endpoint."""
    from components.deployment import endpoint

    example = endpoint.example(version.uri)
    silent = {"endpoint": None, "endpoint_checked": False, "curl": None, "example": example.features}
    if state.target is not Target.LOCAL or not is_live:
        return silent
    server = endpoint.start_or_update(state.registry, version, example)
    log.info("%s answers with version %d", server.url, version.version)
    return silent | {"endpoint": server.url, "endpoint_checked": True, "curl": example.curl(server.url)}


if __name__ == "__main__":
    run(parser(), body)
