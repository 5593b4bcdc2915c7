"""Flags in, files out: see `components/loadtest/__init__.py`."""

import os
from collections.abc import Callable, Sequence
from functools import partial

from components.loadtest import component, core, section
from components.loadtest.client import Client, encode
from components.loadtest.core import Load, LoadSample
from components.loadtest.server import ServerProcess, serve
from nightshift import registry, storage, tasks
from nightshift.config import Config
from nightshift.contracts import loadtest as contract
from nightshift.contracts import package, verdict
from nightshift.contracts.loadtest import UTILIZATION, LatencyShare, LoadTest, LoadTrial, Point, ServerSettings
from nightshift.contracts.section import write_section
from nightshift.contracts.state import DeploymentTarget, State
from nightshift.costs.prices import read_machines
from nightshift.registry import Version, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime import step, strict_json
from nightshift.runtime.context import StepContext
from nightshift.serving import files
from nightshift.stats.latency import poisson_schedule
from nightshift.tasks.base.serving import Payload

WARM_UP = 0.5  # seconds


def body(context: StepContext) -> dict[str, float | str]:
    """Measure, judge, and keep the best settings for the deployment."""
    args, config, state = context.args, context.config, context.state
    load = _load(args.load, config)
    version = release_record.require_champion(ReleaseRef.from_state(state, config.name))
    payloads = _payloads(version, state.lake)
    requests = [encode(payload.body, payload.media_type) for payload in payloads]
    trials = [_trial(version, settings, load, requests) for settings in core.sweep(os.cpu_count() or 1)]
    breakdown = _breakdown(version, [payload.body for payload in payloads], requests, load.seconds)
    loadtest = _summarize(version, load, trials).model_copy(update={"breakdown": breakdown})
    judged = core.verdict(loadtest)
    step.log.info("%s: %s", judged.decision, judged.reasons[0])
    judged.write(storage.join(args.loadtest, verdict.FILE))
    kept = _keep(state, version.name, core.for_endpoint(trials))
    write_section(args.loadtest, section.build(loadtest, judged, kept))
    loadtest.write(storage.join(args.loadtest, contract.FILE))
    return {"capacity": loadtest.capacity, "decision": judged.decision.value}


def _load(text: str, config: Config) -> Load:
    return Load.from_fields(strict_json.loads(text, "--load"), config.release.max_p99_ms)


def _payloads(version: Version, lake: str) -> list[Payload]:
    """Return the payloads: features of the package's reference sample, or items of the newest day."""
    model = package.load(version.uri)
    return tasks.find(model.kind).examples.payloads(version.uri, model, lake, version.name, core.REQUESTS)


def _trial(version: Version, settings: ServerSettings, load: Load, requests: list[bytes]) -> LoadTrial:
    """Start the server with some settings and measure it in both loops."""
    step.log.info("measuring a server with %s", settings)
    with serve(version.uri, version.name, settings) as server:
        client = Client(server.port, requests)
        client.run_closed(max(load.connections), min(WARM_UP, load.seconds))
        closed = [_measure(server, partial(client.run_closed, number, load.seconds)) for number in load.connections]
        due = {rate: poisson_schedule(rate, load.seconds) for rate in core.rates(load, closed)}
        opened = [_measure(server, partial(client.run_open, times, rate)) for rate, times in due.items()]
    return core.build_trial(settings, closed, opened, load.p99_ms)


def _breakdown(version: Version, bodies: list[bytes], requests: list[bytes], seconds: float) -> list[LatencyShare]:
    """Return the parts of the latency of a server that gets one request at a time."""
    from components.loadtest import breakdown

    with serve(version.uri, version.name, ServerSettings()) as server:
        client = Client(server.port, requests)
        client.run_closed(1, min(WARM_UP, seconds))
        count, waited = server.queue_statistics(version.name)
        point = client.run_closed(1, seconds).point()
        more, longer = server.queue_statistics(version.name)
    queue_us = (longer - waited) / max(more - count, 1) / 1000
    return breakdown.shares(version.uri, bodies, queue_us, 1000 * (point.p50_ms or 0.0))


def _measure(server: ServerProcess, measure: Callable[[], LoadSample]) -> Point:
    before = server.cpu_seconds()
    sample = measure()
    after = server.cpu_seconds()
    if before is not None and after is not None:
        sample.server_cpu = after - before
    return sample.point()


def _summarize(version: Version, load: Load, trials: Sequence[LoadTrial]) -> LoadTest:
    best = core.best(trials)
    loadtest = LoadTest(
        model=version.name,
        version=version.version,
        sha256=version.sha256,
        limit_ms=load.p99_ms,
        cores=os.cpu_count() or 1,
        trials=list(trials),
        chosen=best and best.settings,
        capacity=best.capacity if best else 0.0,
        utilization=UTILIZATION,
        requests_per_second=0.0,
        concurrency=1,
        breakdown=[],
        costs=[],
    )
    if best is None:
        return loadtest
    return loadtest.model_copy(update=core.consequences(loadtest, best, read_machines().values()))


def _keep(state: State, name: str, chosen: ServerSettings | None) -> str | None:
    """Keep the best settings where the local endpoint is started from; return the file, None where there is none."""
    if chosen is None or state.target is not DeploymentTarget.LOCAL or registry.is_remote(state.registry):
        return None
    uri = files.settings_uri(registry.root(state.registry), name)
    chosen.write(uri)
    return uri


if __name__ == "__main__":
    step.run(component.loadtest.parser(), body)
