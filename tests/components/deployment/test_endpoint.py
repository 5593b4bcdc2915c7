import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from nightshift import registry, storage
from nightshift.contracts.state import State
from nightshift.local import endpoint, examples
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.progress import Patience, Progress, cpu_seconds, family
from nightshift.serving import files, server
from nightshift.serving.__main__ import body, parser
from nightshift.storage import locks
from nightshift_testkit.processes import started, wait_until
from tests.components.states import state

pytestmark = pytest.mark.slow

EVENT = {"amount": 123.457, "customer_count_1d": 2.0, "channel": "it's web"}


def scored(state: files.RunningServer) -> dict:
    answer = httpx.post(f"{state.url}/score", json={"instances": [EVENT]})
    assert answer.status_code == 200
    return answer.json()


def logistic(weight: float) -> float:
    return 1 / (1 + math.exp(-(weight * EVENT["amount"] + 0.1 * EVENT["customer_count_1d"] + 0.3)))


def test_a_version_answers_this_machine_alone_and_not_only_this_terminal_and_says_what_it_is(stocked, serve):
    state = serve(1)
    assert state.host == "127.0.0.1"
    assert os.getsid(state.pid) != os.getsid(0)
    with socket.socket() as other, pytest.raises(OSError, match=r"refused|timed out"):
        other.settimeout(2)
        other.connect(("127.0.0.2", state.port))
    answer = scored(state)
    assert (answer["model"], answer["version"]) == ("fraud", 1)
    assert answer["predictions"][0]["score"] == pytest.approx(logistic(0.1), abs=1e-6)
    assert answer["predictions"][0]["flagged"] is True
    model = httpx.get(f"{state.url}/model").json()
    assert model.pop("champion_since")
    assert model == {
        "name": "fraud",
        "version": 1,
        "sha256": registry.find(stocked, "fraud", 1).sha256,
        "candidate": "logistic_regression",
        "inputs": {"numeric": ["amount", "customer_count_1d"], "categorical": {"channel": ["shop", "it's web"]}},
        "threshold": 0.5,
        "trained": {"first": "2018-07-25", "last": "2018-07-29"},
        "challenger": None,
    }
    health = httpx.get(f"{state.url}/healthz").json()
    assert (health["status"], health["version"], health["wanted"]["version"], health["problem"]) == ("ok", 1, 1, None)


def test_an_update_keeps_the_process_and_fails_no_request(serve):
    state = serve(1)
    seen, failures, done = [], [], threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=state.url) as client:
            while not done.is_set():
                answer = client.post("/score", json={"instances": [EVENT] * 50})
                if answer.status_code != 200:
                    failures.append(answer.text)
                    continue
                body = answer.json()
                seen.append((body["version"], {round(prediction["score"], 5) for prediction in body["predictions"]}))

    asking = threading.Thread(target=ask)
    asking.start()
    states = [serve(number) for number in (2, 3, 1)]
    done.set()
    asking.join()
    assert states == [state] * 3
    assert not failures
    assert {version for version, _ in seen} == {1, 2, 3}
    # no answer mixes versions
    assert all(scores == {round(logistic(version / 10), 5)} for version, scores in seen)


def test_a_version_whose_files_are_spoiled_leaves_the_old_one_serving(stocked, state, serve):
    server = serve(1)
    spoiled = registry.find(stocked, "fraud", 2)
    expected = examples.build_stateless("", "fraud", spoiled.uri)
    Path(spoiled.uri, "logistic_regression.onnx").write_bytes(b"spoiled")
    pointer = storage.read_bytes(files.pointer_uri(stocked, "fraud"))
    with pytest.raises(UserError, match=r"cannot serve version 2: .*is not the file that model.json names"):
        endpoint.start_or_update(state, spoiled, expected)
    assert storage.read_bytes(files.pointer_uri(stocked, "fraud")) == pointer
    assert scored(server)["version"] == 1


def test_a_problem_with_the_wanted_version_is_told_until_it_is_gone(stocked, serve):
    state = serve(1)
    uri = files.pointer_uri(stocked, "fraud")
    pointer = storage.read_json(uri)
    storage.write_json(uri, pointer | {"version": 2, "sha256": "0" * 64})
    health = _health_when(state, lambda health: health["problem"])
    assert health["status"] == "degraded"
    assert (health["version"], health["wanted"]["version"]) == (1, 2)
    assert "not 00000000; restore its files" in health["problem"]
    storage.write_bytes(uri, b"not JSON")
    assert "JSON is malformed" in _health_when(state, lambda health: "JSON" in health["problem"])["problem"]
    storage.write_json(uri, pointer)
    assert _health_when(state, lambda health: not health["problem"])["status"] == "ok"


def _health_when(state: files.RunningServer, condition) -> dict:
    def matching_health() -> dict | None:
        health = httpx.get(f"{state.url}/healthz").json()
        return health if condition(health) else None

    return wait_until(matching_health, "the endpoint's health is as expected")


def test_a_score_that_is_not_the_models_own_is_not_accepted(stocked, state, serve):
    server = serve(1)
    version = registry.find(stocked, "fraud", 2)
    wrong = replace(examples.build_stateless("", "fraud", version.uri), score=0.123)
    with pytest.raises(UserError, match=r"answered .*'version': 2.* where version 2 scores 0.123"):
        endpoint.start_or_update(state, version, wrong)
    _health_when(server, lambda health: health["version"] == 1)


def test_a_first_version_that_cannot_be_loaded_leaves_nothing_behind(stocked, state):
    version = registry.find(stocked, "fraud", 1)
    expected = examples.build_stateless("", "fraud", version.uri)
    Path(version.uri, "logistic_regression.onnx").write_bytes(b"spoiled")
    with pytest.raises(UserError, match=r"did not start: .*is not the file that model.json names.*server.log"):
        endpoint.start_or_update(state, version, expected)
    assert endpoint.find_running(stocked, "fraud") is None
    assert not storage.exists(files.pointer_uri(stocked, "fraud"))


def test_the_next_port_is_taken_when_somebody_else_has_the_first(serve, free_port):
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_port))
        other.listen()
        assert free_port < serve(1).port <= free_port + 20


def test_no_port_at_all_is_said_to_be_so():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port is {port}, but {port} to {port} are all taken"):
            server.listen(port, attempts=1)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_host_that_is_no_address_of_this_machine_is_not_taken_for_ports_that_are(host, free_port):
    with pytest.raises(UserError, match=f"host is '{host}'.*give an address of this machine with --host"):
        server.listen(free_port, host=host)


def test_stop_ends_the_server_and_a_later_start_begins_afresh(stocked, serve):
    first = serve(1)
    assert endpoint.stop(stocked) == ["fraud"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{first.url}/healthz")
    assert endpoint.stop(stocked) == []
    assert scored(serve(2))["version"] == 2


def test_stop_leaves_a_process_alone_that_only_has_the_number_of_our_server(stocked):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        state = {"pid": other.pid, "host": "127.0.0.1", "port": 9}
        storage.write_json(files.state_uri(stocked, "fraud"), state)
        assert endpoint.stop(stocked) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_server_that_was_killed_is_started_again(stocked, serve):
    first = serve(1)
    os.kill(first.pid, signal.SIGKILL)
    second = serve(1)
    assert second.pid != first.pid
    assert scored(second)["version"] == 1


def test_a_server_that_is_started_again_keeps_the_flags_it_was_started_with(stocked, serve, tmp_path):
    predictions = str(tmp_path / "elsewhere")
    serve(1)
    endpoint.stop(stocked)
    flags = ["--registry", stocked, "--name", "fraud", "--predictions", predictions]
    command = [sys.executable, "-m", "nightshift.serving", *flags]
    with started(command, stderr=subprocess.DEVNULL) as by_hand:
        wait_until(lambda: (at := endpoint.find_running(stocked, "fraud")) and at.pid == by_hand.pid, "it listens")
        by_hand.kill()
    assert list(serve(2).flags) == ["--predictions", predictions]


def test_a_second_server_is_refused_and_the_first_is_not_stopped_for_another_registry(
    stocked, serve, free_port, tmp_path
):
    state = serve(1)
    flags = ["--registry", stocked, "--name", "fraud", "--port", str(free_port)]
    with pytest.raises(UserError, match=r"an endpoint of 'fraud' runs already; `nightshift stop` stops it"):
        body(StepContext(parser().parse_args(flags)))
    storage.write_json(files.state_uri(str(tmp_path / "other"), "fraud"), vars(state))
    assert endpoint.stop(str(tmp_path / "other")) == []
    assert endpoint.find_running(stocked, "fraud") == state


def test_a_server_that_is_started_again_listens_where_it_did(stocked, serve, free_port):
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_port))
        other.listen()
        first = serve(1)
    endpoint.stop(stocked)
    assert first.port != free_port
    assert serve(1).port == first.port


def test_models_of_one_registry_have_a_server_each(stocked, serve, save_model):
    registry.register(stocked, "handbook", save_model(0.9), {})
    states = [serve(1), serve(1, "handbook")]
    assert [scored(state)["model"] for state in states] == ["fraud", "handbook"]
    assert endpoint.stop(stocked, "handbook") == ["handbook"]
    assert scored(states[0])["model"] == "fraud"


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("http://mlflow:5000", "give a folder as registry, or target 'register-only'"),
        ("gs://bucket", "give a local folder or the http"),
    ],
)
def test_a_registry_that_is_no_folder_is_not_served_from_here(folder, message):
    with pytest.raises(UserError, match=message):
        endpoint.check(State.parse(state("/nowhere", registry=folder, target="local")))


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_line_can_be_pasted_into_a_shell(serve, stocked):
    expected = examples.build_stateless("", "fraud", registry.find(stocked, "fraud", 1).uri)
    line = f"{expected.curl(serve(1).url)} -o /dev/null -w '%{{http_code}}'"
    assert subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout == "200"


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("moves", "stalls", "why"),
    [
        ([0, 50, 100, 150, 200], 261, "and made no progress for 60 s"),  # whatever moved last
        ([], 61, "and made no progress for 60 s"),
        (range(0, 2000, 30), 1801, "within 1800 s"),  # what moves for ever and never arrives
    ],
)
def test_a_server_is_waited_for_as_long_as_it_gets_on(moves, stalls, why):
    clock = Clock()
    waited, moved = Progress(Patience(60, 1800), clock), 0
    for clock.now in range(stalls + 1):
        moved += clock.now in moves
        reason = waited.stall_reason(moved, "the same")
        assert reason == (why if clock.now == stalls else None)


def test_the_cpu_time_of_a_process_and_of_its_children_grows_as_long_as_they_compute():
    spin = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    process = subprocess.Popen([sys.executable, "-c", spin], start_new_session=True)
    try:
        wait_until(lambda: (cpu_seconds(process.pid) or 0) >= 1, "the child has computed for a second")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_server_that_stands_still_is_no_mistake_of_the_user_s_and_what_was_live_is_live_again(stocked, state, serve):
    server = serve(1)
    version = registry.find(stocked, "fraud", 2)
    expected, pointer = (
        examples.build_stateless("", "fraud", version.uri),
        storage.read_bytes(files.pointer_uri(stocked, "fraud")),
    )
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(
            UnavailableError,
            match=r"did not serve version 2 and made no progress for 0\.5 s; the version before is live again",
        ):
            endpoint.start_or_update(state, version, expected, patience=Patience(0.5, 60))
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert storage.read_bytes(files.pointer_uri(stocked, "fraud")) == pointer
    assert _health_when(server, lambda health: not health["behind"])["version"] == 1
    assert serve(2) == server


def test_a_server_that_is_killed_while_it_starts_is_tried_again(stocked, state, free_port):
    version = registry.find(stocked, "fraud", 1)

    def kill() -> None:
        lock = files.lock_path(stocked, "fraud")
        wait_until(lambda: locks.is_held(lock), "the server has begun")
        (pid,) = [
            pid for pid in family(os.getpid())[1:] if b"nightshift.serving" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(UnavailableError, match=r"did not start: .*exit code -9.*run the same command again"):
            endpoint.start_or_update(state, version, examples.build_stateless("", "fraud", version.uri), free_port)
    finally:
        killer.join()
    assert not storage.exists(files.pointer_uri(stocked, "fraud"))
