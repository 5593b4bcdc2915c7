"""The step on a tiny package with the real server, and the deployment that starts with what it has found."""

import json
import os
from pathlib import Path

import httpx
import pytest

from components.loadtest import __main__ as step
from components.loadtest import component, core, server
from nightshift import registry
from nightshift.contracts.loadtest import LoadTest, ServerSettings
from nightshift.contracts.section import read_section
from nightshift.contracts.verdict import Verdict
from nightshift.drawing import plots
from nightshift.local import endpoint, examples
from nightshift.registry import release_record
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.serving import files
from nightshift_testkit.servers import free_port
from pipelines import configs
from tests.components.states import state

pytestmark = pytest.mark.slow

LOAD = {"seconds": 0.2, "connections": [1, 4], "rates": [20, 40], "p99_ms": 10_000}


def flags(folder: Path, load: object = LOAD, target: str = "local") -> list[str]:
    config, kept = json.dumps(configs.load("fraud")), state(folder, target=target)
    return ["--config", config, "--state", kept, "--load", json.dumps(load), "--loadtest", str(folder / "found")]


def ran(folder: Path, **options) -> dict:
    return step.body(StepContext(component.loadtest.parser().parse_args(flags(folder, **options))))


@pytest.fixture
def promoted(stocked) -> Path:
    """The folder of a registry whose version 2 of `fraud` is the champion."""
    release_record.promote(release_record.ReleaseRef(stocked, "fraud"), 2)
    return Path(stocked).parent


def test_every_settings_are_measured_in_both_loops_and_the_best_ones_start_the_endpoint(promoted: Path) -> None:
    metrics = ran(promoted)
    load_test = LoadTest.read(str(promoted / "found/loadtest.json"))
    assert (load_test.model, load_test.version) == ("fraud", 2)
    assert [trial.settings for trial in load_test.trials] == core.sweep(os.cpu_count() or 1)
    for trial in load_test.trials:
        assert [point.connections for point in trial.closed] == [1, 4]
        assert [point.offered for point in trial.open] == [20, 40]
        assert all(point.answered and not point.failures for point in [*trial.closed, *trial.open])
    names = ["parse", "features", "queue", "compute", "serialize", "HTTP and kernel"]
    assert [share.name for share in load_test.breakdown] == names
    assert all(share.microseconds > 0 for share in load_test.breakdown[:-1])
    verdict = Verdict.read(str(promoted / "found/verdict.json"))
    assert verdict.subject == registry.find(str(promoted / "registry"), "fraud", 2).sha256
    assert metrics == {"capacity": load_test.capacity, "decision": verdict.decision}
    section = read_section(str(promoted / "found"))
    assert section.outcome.label == verdict.decision
    (chart,) = [block for block in section.blocks if block.kind == "chart"]
    limit, line, points = plots.chart(chart).series
    assert limit.path
    assert line.path
    assert len(points.markers) == sum(len(trial.open) for trial in load_test.trials)


def test_the_deployment_starts_the_server_with_the_settings_that_were_kept(promoted: Path) -> None:
    root = str(promoted / "registry")
    ServerSettings(max_rows=7, delay_ms=3).write(files.settings_uri(root, "fraud"))
    version = registry.find(root, "fraud", 2)
    kept = step.State.parse(state(promoted, target="local"))
    running = endpoint.start_or_update(kept, version, examples.build_stateless("", "fraud", version.uri), free_port())
    try:
        config = httpx.get(f"{running.url}/v2/models/fraud/config").json()
    finally:
        endpoint.stop(root)
    assert config["max_batch_size"] == 7
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 3000}


def test_settings_are_kept_only_where_this_machine_serves(promoted: Path) -> None:
    root = str(promoted / "registry")
    assert step._keep(step.State.parse(state(promoted, target="register-only")), "fraud", ServerSettings()) is None
    assert step._keep(step.State.parse(state(promoted, target="local")), "fraud", None) is None
    assert not Path(files.settings_uri(root, "fraud")).exists()


def test_without_a_champion_or_with_a_wrong_load_nothing_is_measured(stocked: str) -> None:
    folder = Path(stocked).parent
    with pytest.raises(UserError, match="has no champion of 'fraud'; run training first"):
        ran(folder)
    with pytest.raises(UserError, match=r"load\.seconds is -1"):
        ran(folder, load={"seconds": -1})
    assert not (folder / "found").exists()


def test_a_server_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    with (
        pytest.raises(UnavailableError, match=r"did not answer .*nowhere"),
        server.serve(str(tmp_path / "nowhere"), "fraud", ServerSettings()),
    ):
        pass
