"""Messages to real receivers on this machine."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from nightshift.http.addresses import HOST, listen
from nightshift.notify.sending import resolve, send
from nightshift.runtime.errors import UnavailableError, UserError
from tests.nightshift.notify.nights import notification

SECRET = "geheim-42"
ONE = [notification(sentence="It failed: a <b> & c.")]


class Inbox(HTTPServer):
    """An HTTP receiver that answers with a status and keeps requests."""

    status = 200

    def __init__(self) -> None:
        super().__init__((HOST, 0), Desk)
        self.requests: list[tuple[str, dict[str, Any]]] = []


class Desk(BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"its end is that of the connection")

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class MailServer(socketserver.TCPServer):
    """An SMTP receiver that answers RCPT with a line and keeps letters."""

    answer = b"250 ok"

    def __init__(self) -> None:
        super().__init__((HOST, 0), Dialog)
        self.letters: list[str] = []


class Dialog(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            word = line[:4].upper().strip()
            self.wfile.write(b"354 go\r\n" if word == b"DATA" else self.answer_to(word) + b"\r\n")
            if word == b"DATA":
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.letters.append(b"".join(lines).decode())
                self.wfile.write(b"250 ok\r\n")

    def answer_to(self, word: bytes) -> bytes:
        return self.server.answer if word == b"RCPT" else b"250 ok"


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[int]:
    """Serve in a thread; yield the port."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_each_kind_of_http_receiver_gets_its_json() -> None:
    with serving(inbox := Inbox()) as port:
        for url in ("http://{}/hook?a=b", "slack+http://{}/services/x", f"pagerduty+http://{SECRET}@{{}}"):
            send(url.format(f"{HOST}:{port}"), ONE)
    (path, webhook), (_, slack), (enqueue, alert) = inbox.requests
    assert (path, webhook["notifications"][0]["subject"]) == ("/hook?a=b", "features")
    assert "fraud, 2026-11-28: It failed: a &lt;b&gt; &amp; c.\nhttps://" in slack["text"]
    assert (enqueue, alert["routing_key"], alert["event_action"]) == ("/v2/enqueue", SECRET, "trigger")
    assert alert["payload"]["severity"] == "error"
    assert set(alert["payload"]) == {"summary", "source", "severity", "custom_details"}


def test_the_end_of_what_a_message_was_about_resolves_its_alert_at_pagerduty_and_is_no_message_elsewhere() -> None:
    two = [*ONE, notification(use_case="claims")]
    with serving(inbox := Inbox()) as port:
        pagerduty = f"pagerduty+http://{SECRET}@{HOST}:{port}"
        send(pagerduty, two)
        for url in (pagerduty, f"slack+http://{HOST}:{port}", f"https://{HOST}:{port}", f"smtp://{HOST}/?from=a&to=b"):
            resolve(url, [entry.cause for entry in two])
    (_, alert), (path, end) = inbox.requests
    assert (path, end["event_action"], end["routing_key"]) == ("/v2/enqueue", "resolve", SECRET)
    assert end["dedup_key"] == alert["dedup_key"]


def test_an_email_has_a_subject_and_the_sentences() -> None:
    two = [*ONE, notification(use_case="claims")]
    with serving(server := MailServer()) as port:
        send(f"smtp://{HOST}:{port}/?from=nights@example.com&to=a@example.com", two)
    letter = message_from_string(server.letters[0])
    assert (letter["subject"], letter["to"]) == ("2 notifications of claims, fraud", "a@example.com")
    assert "The run failed in features." in letter.get_payload()


@pytest.mark.parametrize(("status", "error"), [(500, UnavailableError), (429, UnavailableError), (404, UserError)])
def test_a_receiver_that_fails_may_succeed_later_and_one_that_refuses_is_to_be_fixed(status, error) -> None:
    with serving(inbox := Inbox()) as port:
        inbox.status = status
        with pytest.raises(error, match=str(status)) as caught:
            send(f"slack+http://{HOST}:{port}/{SECRET}", ONE)
        inbox.status = 200
        send(f"slack+http://{HOST}:{port}/{SECRET}", ONE)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", ["http://{}/geheim-42", "smtp://{}/?from=a@b.c&to=a@b.c"])
def test_a_receiver_that_is_slow_or_down_is_left_in_time(url: str) -> None:
    with listen(0, 1) as silent:
        address = f"{HOST}:{silent.getsockname()[1]}"
        with pytest.raises(UnavailableError, match="in time"):
            send(url.format(address), ONE, 0.05)
    with pytest.raises(UnavailableError, match="is not delivered") as caught:
        send(url.format(address), ONE, 0.05)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("answer", "error"), [(b"450 later", UnavailableError), (b"550 unknown", UserError)])
def test_a_mailbox_that_is_busy_may_take_it_later_and_an_unknown_one_is_to_be_fixed(answer, error) -> None:
    with serving(server := MailServer()) as port:
        server.answer = answer
        with pytest.raises(error):
            send(f"smtp://{HOST}:{port}/?from=a@b.c&to=a@b.c", ONE)


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://{SECRET}@host",
        SECRET,
        f"https://host:{SECRET}/",
        f"https://host/{SECRET} x",
        f"https:///{SECRET}",
        f"pagerduty+https://host/{SECRET}",
        f"smtps://u:{SECRET}@host/?to=a@b.c",
        f"smtps://u:{SECRET}@host:99999/?from=a@b.c&to=a@b.c",
    ],
)
def test_a_wrong_url_is_explained_without_it(url: str) -> None:
    with pytest.raises(UserError, match=r"allowed|write") as caught:
        send(url, ONE)
    assert SECRET not in str(caught.value)
