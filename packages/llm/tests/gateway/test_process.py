"""The gateway's flags, and the gateway as a process of its own: killed, stopped, and with files that change."""

import hashlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift_llm.gateway import report
from nightshift_llm.gateway.__main__ import body, parser
from nightshift_llm.gateway.ledger import RECOVERED
from nightshift_llm.gateway.ledger_file import read_report
from nightshift_testkit.engines.simulated import MODEL, SimulatedReplica
from nightshift_testkit.processes import SECONDS, started, wait_until
from nightshift_testkit.servers import free_port
from packages.llm.tests.gateway.conftest import CHAT, replying

GATEWAY = [sys.executable, "-m", "nightshift_llm.gateway"]
HEADERS = {"authorization": "Bearer secret"}
KEYS = f"- name: team\n  sha256: {hashlib.sha256(b'secret').hexdigest()}\n  tokens_per_day: 2000\n"
REPLICA = ["--replica", "http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give the replicas with either --replica URL, once per replica, or --replicas FILE"),
        (["--replica", "http://a:1", "--replicas", "file"], "give the replicas with either --replica URL"),
        (["--replica", "a:1"], "replica is 'a:1'; give [VERSION=]http://HOST:PORT or https://HOST:PORT"),
        (["--replicas", "/nowhere"], "replicas is '/nowhere': No such file or directory"),
        ([*REPLICA, "--keys", "file"], "keys and ledger belong together; give both --keys FILE and --ledger FILE"),
        ([*REPLICA, "--keys", "/nowhere", "--ledger", "l"], "keys is '/nowhere': No such file or directory"),
        ([*REPLICA, "--host", "192.0.2.7"], "host is '192.0.2.7', which other machines can reach; give --keys FILE"),
        ([*REPLICA, "--replica-token-file", "/nowhere"], "replica-token-file is '/nowhere': No such file or directory"),
        ([*REPLICA, "--port", "0"], "port is '0'; give a number from 1 to 65535"),
    ],
)
def test_a_wrong_flag_is_refused_with_what_is_allowed(words, message) -> None:
    with pytest.raises(UserError) as error:
        body(StepContext(parser().parse_args(words)))
    assert str(error.value).startswith(message)


def read_status(url: str) -> int | None:
    """The status of a gateway's health; None: nothing listens."""
    try:
        return httpx.get(f"{url}/healthz").status_code
    except httpx.ConnectError:
        return None


class Files:
    """The files of a gateway, and its command."""

    def __init__(self, folder: Path, *urls: str) -> None:
        self.port, self.ledger = free_port(), folder / "ledger"
        self.url, self.replicas, self.keys = f"http://127.0.0.1:{self.port}", folder / "replicas", folder / "keys"
        self.replicas.write_text("\n".join(urls))
        self.token = folder / "token"
        self.token.write_text("engine's\n")
        self.keys.write_text(KEYS)

    @contextmanager
    def gateway(self) -> "Iterator[subprocess.Popen[str]]":
        """Start the gateway, and wait until its replicas answer."""
        flags = {"port": self.port, "replicas": self.replicas, "keys": self.keys, "ledger": self.ledger}
        flags |= {"replica-token-file": self.token}
        with started([*GATEWAY, *(f"--{name}={value}" for name, value in flags.items())]) as process:
            wait_until(lambda: read_status(self.url) == 200, "the replicas answer")
            yield process

    def ask(self, tokens: int) -> httpx.Response:
        request = {"model": MODEL, "messages": CHAT, "max_tokens": tokens}
        return httpx.post(f"{self.url}/v1/chat/completions", json=request, headers=HEADERS)

    @contextmanager
    def stream(self, tokens: int) -> Iterator[Iterator[str]]:
        request = {"model": MODEL, "messages": CHAT, "max_tokens": tokens, "stream": True}
        url = f"{self.url}/v1/chat/completions"
        with httpx.stream("POST", url, json=request, headers=HEADERS, timeout=SECONDS) as response:
            yield response.iter_lines()


@pytest.mark.slow
def test_a_gateway_that_is_killed_cuts_no_stream_silently_and_its_successor_charges_it(tmp_path) -> None:
    replica = SimulatedReplica()
    with replying(replica) as url:
        files = Files(tmp_path, url)
        replica.is_held = True
        with files.gateway() as gateway, files.stream(1000) as lines:
            next(lines)
            gateway.send_signal(signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        assert replica.bearers == {"Bearer engine's"}  # and never the client's key
        replica.is_held = False
        with files.gateway():
            (row,) = read_report(str(files.ledger))
            assert (row.key, row.version, row.requests) == ("team", RECOVERED, 1)
            left = 2000 - row.estimated_tokens
            assert f"team has {left} of 2000 left" in files.ask(1000).json()["error"]["message"]
            assert files.ask(100).status_code == 200


@pytest.mark.slow
def test_a_gateway_that_is_stopped_ends_its_streams_first_and_one_ledger_has_one_gateway(tmp_path, capsys) -> None:
    replica = SimulatedReplica()
    with replying(replica) as url:
        files = Files(tmp_path, url)
        replica.is_held = True
        with files.gateway() as gateway, files.stream(1000) as lines:
            next(lines)
            (link := tmp_path / "link").symlink_to(files.ledger)
            words = [*GATEWAY, "--ledger", str(link), "--keys", str(files.keys), *REPLICA]
            second = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
            assert (second.returncode, "another gateway uses" in second.stderr) == (2, True)
            gateway.send_signal(signal.SIGTERM)
            wait_until(lambda: read_status(files.url) is None, "it accepts no more")
            replica.is_held = False
            assert [line for line in lines if line][-1] == "data: [DONE]"
            assert gateway.wait(SECONDS) == 0
    report.body(StepContext(report.parser().parse_args(["--ledger", str(files.ledger)])))
    names, row = capsys.readouterr().out.splitlines()
    assert names == "key,version,day,requests,prompt_tokens,completion_tokens,estimated_tokens,nanodollars"
    assert row.startswith(f"team,{MODEL},2") and row.endswith(f",1,13,{replica.counts['completion_tokens']},0,0")


@pytest.mark.slow
def test_replicas_and_keys_follow_their_files_and_a_wrong_file_changes_nothing(tmp_path) -> None:
    with replying(SimulatedReplica()) as first, replying(SimulatedReplica()) as second:
        files = Files(tmp_path, first)
        with files.gateway():
            files.replicas.write_text(f"7={second}\n")
            files.keys.write_text("- name: [")
            wait_until(lambda: list(httpx.get(f"{files.url}/healthz").json()["replicas"]) == [second], "the change")
            wait_until(lambda: files.ask(10).status_code == 200, "the new replica answers")
            files.keys.write_text(KEYS.replace("2000", "300"))
            wait_until(lambda: "of 300 left" in files.ask(1000).text, "the new limit")
        assert [row.version for row in read_report(str(files.ledger))] == ["7"]
