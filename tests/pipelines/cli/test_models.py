"""Models are listed, promoted and rolled back by hand, and what serves them follows."""

import configparser
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightshift import registry, storage
from nightshift.contracts import package
from nightshift.contracts.release_record import Action, Stage
from nightshift.local import endpoint, examples
from nightshift.registry import approvals, audit_log, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError
from nightshift.serving import files
from nightshift.serving.files import Challenger
from nightshift.storage import locks
from nightshift_llm.local.engine import RunningEngine
from nightshift_llm.preprocessing import LanguagePreprocessing
from nightshift_testkit import packages
from nightshift_testkit.processes import SECONDS, engine, started, wait_until
from nightshift_testkit.servers import free_port
from pipelines import configs
from pipelines.cli.__main__ import parse_command_line
from pipelines.environments import local


def run(folder: str, *words: str) -> int:
    args = parse_command_line([*words, "--workspace", str(Path(folder).parent)])
    return args.command(args)


@pytest.fixture
def served(stocked):
    """The endpoint of version 1 of `fraud`, a real process."""
    version = registry.find(stocked, "fraud", 1)
    example = examples.build_stateless("", "fraud", version.uri)
    yield endpoint.start_or_update(local(Path(stocked).parent), version, example, free_port())
    endpoint.stop(stocked)


def test_models_lists_every_version_and_marks_the_champion(stocked, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    release_record.promote(ReleaseRef(stocked, "fraud"), 2)
    run(stocked, "models")
    printed = capsys.readouterr().out
    assert re.search(r"average\s.*\n.* precision ", printed)
    rows = [re.split(r"  +", line.strip()) for line in printed.splitlines() if ".." in line]
    assert [row[:3] for row in rows] == [
        ["1", "2018-07-25 .. 2018-07-29", "0.6000"],
        ["2 *", "2018-07-25 .. 2018-07-30", "0.6000"],
        ["3", "2018-07-25 .. 2018-07-31", "0.6000"],
    ]
    registered = [version.tags["registered_at"][:10] for version in registry.versions(stocked, "fraud")]
    (live,) = release_record.read(ReleaseRef(stocked, "fraud")).live_since.values()
    dates = [[cell[:10] for cell in row[3:]] for row in rows]
    assert dates == [[registered[0], "-"], [registered[1], str(live)[:10]], [registered[2], "-"]]


@pytest.mark.slow
def test_promote_and_rollback_move_the_champion_and_the_running_endpoint(stocked, served, capsys):
    run(stocked, "promote", "1")
    run(stocked, "promote", "3")
    assert httpx.get(f"{served.url}/model").json()["version"] == 3
    before = datetime.now(UTC).isoformat(timespec="seconds")
    run(stocked, "rollback")
    model = httpx.get(f"{served.url}/model").json()
    assert model["version"] == 1
    assert model["champion_since"] >= before
    assert release_record.champion(ReleaseRef(stocked, "fraud")).version == 1
    assert "fraud: version 1 is the champion now" in capsys.readouterr().out


@pytest.mark.slow
def test_a_version_rolled_back_while_the_endpoint_was_down_serves_after_a_restart(stocked, served):
    run(stocked, "promote", "1")
    run(stocked, "promote", "2")
    os.kill(served.pid, signal.SIGKILL)
    wait_until(lambda: endpoint.find_running(stocked, "fraud") is None, "the endpoint has ended")
    run(stocked, "rollback")
    # as a supervisor starts it again, on the port that clients know
    with started(engine(*read_unit_command(str(Path(stocked).parent), "fraud"))):
        health = wait_until(lambda: read_health(served.url), "the endpoint answers")
        assert (health["version"], health["status"], health["loaded"]) == (1, "ok", True)
        # and it follows whoever changes the record alone
        release_record.promote(ReleaseRef(stocked, "fraud"), 3)
        wait_until(lambda: read_health(served.url)["version"] == 3, "the endpoint follows the record")
        with pytest.raises(UserError, match="an endpoint of 'fraud' runs already"):
            run(stocked, "serve")


@pytest.mark.slow
def test_a_promotion_reaches_the_engine_while_the_endpoint_is_down(tmp_path):
    stocked, model = str(tmp_path / "registry"), tmp_path / "model"
    texts = LanguagePreprocessing(
        length=8, tokenizer="tokenizer.json", tokenizer_sha256="", vocabulary=8, start=0, chat=False
    )
    packages.manifest({"llama": b"graph"}, preprocessing=texts).write(str(model / package.MANIFEST))
    (model / "llama.onnx").write_bytes(b"graph")
    registry.register(stocked, "tales", str(model), {})
    folder = Path(files.folder(stocked, "tales"))
    folder.mkdir(parents=True)
    waiting = [sys.executable, "-c", "import time; time.sleep(600)"]
    with locks.hold(folder / "engine.lock", inheritable=True) as lock:
        process = subprocess.Popen(waiting, pass_fds=[lock.fileno()])
    storage.write_json(str(folder / "engine.json"), asdict(RunningEngine(process.pid, "127.0.0.1", 9, "old.gguf")))
    run(stocked, "promote", "1")  # whose package has no file for an engine
    assert process.wait(SECONDS) == -signal.SIGTERM


def read_unit_command(workspace: str, name: str) -> list[str]:
    """Return the words after `nightshift` with which systemd starts an endpoint."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.read(Path(__file__).parents[3] / "infra" / "systemd" / "nightshift-endpoint.service")
    words = unit["Service"]["ExecStart"].replace("%i", name).split()
    return [workspace if word == unit["Service"]["WorkingDirectory"] else word for word in words[1:]]


def read_health(url: str) -> dict[str, Any]:
    try:
        health: dict[str, Any] = httpx.get(f"{url}/healthz").json()
    except httpx.TransportError:
        return {}
    return health


@pytest.mark.slow
def test_an_aborted_release_leaves_no_request_to_its_challenger(stocked, served, capsys):
    run(stocked, "promote", "1")
    state = local(Path(stocked).parent)
    version, second = (registry.find(stocked, "fraud", number) for number in (1, 2))
    challenger = Challenger(2, second.uri, second.sha256, 0.7)

    def advance(record):
        endpoint.start_or_update(state, version, examples.build_stateless("", "fraud", version.uri), 0, challenger)
        shares = {"traffic": 0.3}, {"traffic": 0.7}
        parts = [
            release_record.describe(part).model_copy(update=share)
            for part, share in zip((version, second), shares, strict=True)
        ]
        return release_record.entry(Action.ADVANCED, version).model_copy(
            update={"stage": Stage.CANARY, "versions": parts}
        )

    with registry.lock(stocked):
        release_record.change(ReleaseRef(stocked, "fraud"), advance)
    assert httpx.get(f"{served.url}/model").json()["challenger"] == {"version": 2, "share": 0.7}
    capsys.readouterr()
    run(stocked, "release", "abort")
    assert httpx.get(f"{served.url}/model").json()["challenger"] is None
    assert capsys.readouterr().out.splitlines()[0] == f"fraud: Version 1 answers all requests at {served.url}"


def test_promote_without_an_endpoint_starts_none(stocked, capsys):
    run(stocked, "promote", "2")
    assert release_record.champion(ReleaseRef(stocked, "fraud")).version == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("no endpoint is running here: one that starts serves version 2; another target")
    assert lines[1:] == ["fraud: version 2 is the champion now"]


@pytest.mark.parametrize("version", ["9", "two", "2.0"])
def test_a_wrong_version_is_answered_with_those_that_exist(stocked, version):
    with pytest.raises(UserError, match=r"existing versions.*: 1, 2, 3"):
        run(stocked, "promote", version)
    assert release_record.champion(ReleaseRef(stocked, "fraud")) is None


def test_a_rollback_without_an_earlier_champion_is_refused(stocked):
    run(stocked, "promote", "1")
    with pytest.raises(UserError, match="nothing to roll back to"):
        run(stocked, "rollback")


def test_a_model_has_to_be_named_where_there_are_several(stocked, save_model):
    registry.register(stocked, "handbook", save_model(0.5), {})
    with pytest.raises(UserError, match="use case is None; registered models: fraud, handbook"):
        run(stocked, "promote", "1")
    with pytest.raises(UserError, match=r"use case is 'handbok'; .*did you mean 'handbook'\?"):
        run(stocked, "promote", "1", "--config", "handbok")
    for named in ("handbook", str(configs.find_file("handbook"))):
        run(stocked, "promote", "1", "--config", named)
    assert release_record.champion(ReleaseRef(stocked, "fraud")) is None


def test_an_empty_registry_says_how_to_fill_it(tmp_path):
    with pytest.raises(UserError, match="holds no model yet; `nightshift run` registers one"):
        run(str(tmp_path / "registry"), "models")


@pytest.mark.slow
def test_stop_ends_every_endpoint_of_the_registry(stocked, served, capsys):
    run(stocked, "stop")
    with pytest.raises(httpx.ConnectError):
        httpx.get(served.url)
    run(stocked, "stop")
    assert capsys.readouterr().out == "stopped the endpoint of fraud\nno endpoint is running\n"


def test_approve_takes_a_version_live_that_waits_with_its_reason_in_the_log(stocked, capsys):
    ref = ReleaseRef(stocked, "fraud")
    waiting = release_record.describe(registry.find(stocked, "fraud", 2))
    approvals.note(ref, 2, approvals.describe(waiting, None, "fraud-1", ["It is good."]))
    run(stocked, "models")
    assert "2 ?" in capsys.readouterr().out

    with pytest.raises(UserError, match="version 1 of 'fraud' does not wait for an approval; versions that do: 2"):
        run(stocked, "approve", "1", "--reason", "why not")
    run(stocked, "approve", "2", "--reason", "checked by risk")

    assert "fraud: version 2 is the champion now" in capsys.readouterr().out
    record = release_record.read(ref)
    assert (record.live.version, record.reasons) == (2, [f"Approved by {registry.user()}: checked by risk"])
    refused, done = audit_log.read_actions(local(Path(stocked).parent), "fraud")
    assert (refused.subject, refused.outcome[:30]) == ("version 1", "version 1 of 'fraud' does not ")
    assert (done.action, done.subject, done.reason, done.outcome) == ("approve", "version 2", "checked by risk", "done")


def test_who_promotes_and_rolls_back_may_say_why(stocked):
    for words in (["promote", "1"], ["promote", "2", "--reason", "a new price"], ["rollback", "--reason", "too slow"]):
        run(stocked, *words)

    assert [entry.reasons for entry in release_record.read(ReleaseRef(stocked, "fraud")).entries] == [
        [],
        ["By hand: a new price"],
        ["By hand: too slow"],
    ]
    entries = audit_log.read_actions(local(Path(stocked).parent), "fraud")
    assert [(entry.action, entry.reason) for entry in entries] == [
        ("promote", ""),
        ("promote", "a new price"),
        ("rollback", "too slow"),
    ]
