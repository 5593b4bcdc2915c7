"""A registry as nodes ask it: with a login, by a token server, without either."""

import base64
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_testkit.servers import free_port, serving
from pipelines.doctor.images import HttpRegistry, LoginError, split_reference

LOGIN = base64.b64encode(b"ann:secret").decode()
TOKEN = "token-of-ann"


class Registry(ThreadingHTTPServer):
    """Has `acme/base:1` for those with LOGIN, by way of a token if `tokens`."""

    tokens = False
    status = 200

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Registry

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        authorization = f"Bearer {TOKEN}" if self.server.tokens else f"Basic {LOGIN}"
        if self.headers["authorization"] != authorization:
            realm = f'Bearer realm="http://{self.server.host}/token",service="acme",scope="pull"'
            return self._answer(401, {"www-authenticate": realm if self.server.tokens else 'Basic realm="acme"'})
        here = re.fullmatch("/v2/acme/base/manifests/1", self.path)
        return self._answer(self.server.status if here else 404, {"docker-content-digest": "sha256:abc"})

    def do_GET(self) -> None:
        assert self.path == "/token?service=acme&scope=pull"
        named = self.headers["authorization"] == f"Basic {LOGIN}"
        self._answer(200 if named else 401, {}, json.dumps({"token": TOKEN}).encode() if named else b"")

    def _answer(self, status: int, headers: dict[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry(("127.0.0.1", 0), Handler)
    with serving(server):
        yield server


@pytest.mark.parametrize("tokens", [False, True])
def test_an_image_is_resolved_with_the_pull_secrets_login(tokens: bool, registry: Registry) -> None:
    registry.tokens = tokens

    assert HttpRegistry().resolve(f"{registry.host}/acme/base:1", LOGIN) == "sha256:abc"


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize(("login", "reason"), [("", "a request without a login"), ("eDp5", "the login")])
def test_a_registry_that_refuses_says_whom(tokens: bool, login: str, reason: str, registry: Registry) -> None:
    registry.tokens = tokens

    with pytest.raises(LoginError, match=f"refuses {reason}$"):
        HttpRegistry().resolve(f"{registry.host}/acme/base:1", login)


def test_an_image_that_is_not_there_is_named(registry: Registry) -> None:
    with pytest.raises(UserError, match="it has no acme/base:2"):
        HttpRegistry().resolve(f"{registry.host}/acme/base:2", LOGIN)


def test_a_registry_that_is_down_is_no_fault_of_the_image(registry: Registry) -> None:
    registry.status = 503

    with pytest.raises(UnavailableError, match="answers 503"):
        HttpRegistry().resolve(f"{registry.host}/acme/base:1", LOGIN)
    with pytest.raises(UnavailableError, match="does not answer"):
        HttpRegistry().resolve(f"127.0.0.1:{free_port()}/acme/base:1", LOGIN)


def test_the_port_of_a_registry_is_no_tag() -> None:
    assert split_reference("acme.test:5000/team/base:1.2") == ("acme.test:5000", "team/base", "1.2")
    assert split_reference("acme.test/base") == ("acme.test", "base", "latest")
