"""The application under uvicorn, a real ASGI server, asked over TLS."""

import asyncio
import gzip
import json
import math
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nightshift.runtime.errors import UserError
from nightshift.serving.asgi import ASGI, create
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port

BODY = json.dumps({"instances": [{"amount": 1.5, "customer_count_1d": 2.0, "channel": "shop"}]}).encode()
SCORE = 1 / (1 + math.exp(-(0.1 * 1.5 + 0.1 * 2.0 + 0.2)))
TOKEN = {"Authorization": "Bearer secret"}


def certified(folder: Path) -> tuple[str, str]:
    """The files of a certificate for 127.0.0.1 that signs itself, and of its key."""
    key, name, now = ec.generate_private_key(ec.SECP256R1()), x509.Name([]), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = builder.add_extension(address, critical=True).sign(key, hashes.SHA256())
    encoding, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "cert.pem").write_bytes(certificate.public_bytes(encoding))
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, pkcs8, serialization.NoEncryption()))
    return str(folder / "cert.pem"), str(folder / "key.pem")


@contextmanager
def uvicorn_serving(app: ASGI, certificate: str, key: str) -> Iterator[int]:
    """Serve by uvicorn during the block; gives the port."""
    port = free_port()
    config = uvicorn.Config(app, port=port, lifespan="on", log_level="error", ssl_certfile=certificate, ssl_keyfile=key)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, "uvicorn has started")
        yield port
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def client(package, tmp_path_factory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("asgi")
    (folder / "token").write_text("secret\n")
    app = create("--model", package, "--name", "fraud", "--token-file", str(folder / "token"))
    certificate, key = certified(folder)
    with (
        uvicorn_serving(app, certificate, key) as port,
        httpx.Client(
            base_url=f"https://127.0.0.1:{port}", verify=ssl.create_default_context(cafile=certificate)
        ) as client,
    ):
        yield client


def test_a_request_over_tls_is_scored_also_when_it_is_compressed(client) -> None:
    plain = client.post("/score", content=BODY, headers=TOKEN | {"X-Request-Id": "mine"})
    packed = client.post("/score", content=gzip.compress(BODY), headers=TOKEN | {"Content-Encoding": "gzip"})
    assert (plain.status_code, plain.headers["x-request-id"]) == (200, "mine")
    assert plain.json() == packed.json()
    assert plain.json()["predictions"][0]["score"] == pytest.approx(SCORE, abs=1e-6)


def test_what_is_refused_has_the_same_status_as_without_tls(client) -> None:
    assert client.post("/score", content=BODY).status_code == 401
    assert client.get("/score", headers=TOKEN).headers["allow"] == "POST"
    assert client.post("/score", content=b"x" * (8 * 2**20 + 1), headers=TOKEN).status_code == 413
    assert client.post("/score", content=b"{", headers=TOKEN).json()["field"] == "body"
    head, get = client.head("/v2", headers=TOKEN), client.get("/v2?a=b", headers=TOKEN)
    assert (head.content, head.headers["content-length"]) == (b"", get.headers["content-length"])


def test_a_client_that_goes_before_its_body_has_come_is_not_answered_and_the_next_one_is(client) -> None:
    with socket.create_connection(("127.0.0.1", client.base_url.port)) as raw:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(raw) as half:
            half.sendall(
                b"POST /labels HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nContent-Length: 9\r\n\r\n{}"
            )
    assert client.post("/score", content=BODY, headers=TOKEN).status_code == 200
    assert 'route="/labels"' not in client.get("/metrics", headers=TOKEN).text


def test_a_model_that_cannot_be_loaded_ends_the_start_with_one_line(tmp_path) -> None:
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    app = create("--model", str(tmp_path / "none"), "--name", "fraud")
    asyncio.run(app({"type": "lifespan"}, receive, send))

    (message,) = sent
    assert message["type"] == "lifespan.startup.failed"
    assert f"{tmp_path}/none" in message["message"]


def test_flags_that_are_wrong_are_refused_at_once() -> None:
    with pytest.raises(UserError, match="what to serve is not clear"):
        create("--name", "fraud")
