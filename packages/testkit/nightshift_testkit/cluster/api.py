"""The server: HTTP requests in, objects, Status, watches and logs out."""

import base64
import json
import secrets
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from nightshift.runtime import strict_yaml
from nightshift_testkit.cluster import discovery, rbac
from nightshift_testkit.cluster.access import Certificate
from nightshift_testkit.cluster.kinds import BUILT_IN, NAMESPACE, POD, SERVICE_ACCOUNT, Json, ResourceKind
from nightshift_testkit.cluster.logs import Log
from nightshift_testkit.cluster.operations import Operations
from nightshift_testkit.cluster.problems import StatusError, missing
from nightshift_testkit.cluster.rbac import ADMIN, AccessRequest, User
from nightshift_testkit.cluster.selectors import Selection
from nightshift_testkit.cluster.store import ResourceStore
from nightshift_testkit.cluster.watches import watched
from nightshift_testkit.servers import serving

VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
REVIEWS = ("selfsubjectaccessreviews", "subjectaccessreviews")
TRUE = ("1", "true", "True")
GONE = (ConnectionError, ssl.SSLEOFError)  # who has asked


@dataclass
class ApiRequest:
    """What a client asks for."""

    method: str
    kind: ResourceKind
    user: User
    query: dict[str, str]
    body: Any
    media: str
    namespace: str = ""
    name: str = ""
    part: str = ""

    @property
    def watch(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in TRUE

    @property
    def dry(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def verb(self) -> str:
        if self.name or self.method not in ("GET", "DELETE"):
            return VERBS[self.method]
        return "watch" if self.watch else "list" if self.method == "GET" else "deletecollection"

    @property
    def action(self) -> AccessRequest:
        resource = f"{self.kind.plural}/{self.part}" if self.part else self.kind.plural
        return AccessRequest(self.verb, self.kind.group, resource, self.namespace, self.name)

    @property
    def selection(self) -> Selection:
        return Selection(self.kind, self.query.get("labelSelector", ""), self.query.get("fieldSelector", ""))


@dataclass
class ClusterApi:
    """The server's parts; `url` says where it is.

    Without `tokens` everybody is the administrator; with them a request needs one.
    """

    store: ResourceStore
    kinds: tuple[ResourceKind, ...] = BUILT_IN
    tokens: dict[str, User] = field(default_factory=dict)
    log: Callable[[Json, str], Log] | None = None  # log of a pod's container
    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)  # methods and paths
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.operations = Operations(self.store)

    def user(self, header: str | None) -> User:
        """Who a request comes from.

        Raises:
            StatusError: 401, when nobody knows the token.
        """
        if not self.tokens:
            return ADMIN
        # clients inside a cluster write the word without a capital
        scheme, _, token = (header or "").partition(" ")
        user = self.tokens.get(token) if scheme.lower() == "bearer" else None
        if user is None:
            raise StatusError(401, "Unauthorized")
        return user

    def token(self, namespace: str, account: str) -> str:
        """Make a token of a service account."""
        token = f"{account}-{secrets.token_urlsafe()}"
        self.tokens[token] = User.account(namespace, account)
        return token

    def find(self, path: str) -> tuple[ResourceKind, str, str, str]:
        """Return what a path names: kind, namespace, name, subresource.

        Raises:
            StatusError: 404, when the server has nothing like it.
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (*parts[1:3], parts[3:])
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        for kind in self.kinds:
            if (kind.group, kind.version, kind.plural) == (group, version, rest[0]):
                name, part = (*rest[1:], "", "")[:2]
                return kind, namespace, name, part
        raise StatusError(404, "the server could not find the requested resource")

    def answer(self, request: ApiRequest) -> tuple[int, Json]:
        """Do what is asked for, but for watches and logs."""
        rbac.authorize(self.store, request.user, request.action)
        if request.part:
            return self._part(request)
        return getattr(self, f"_{request.verb}")(request)

    def _create(self, request: ApiRequest) -> tuple[int, Json]:
        return 201, self.operations.create(request.kind, request.body, request.namespace, request.dry)

    def _get(self, request: ApiRequest) -> tuple[int, Json]:
        return 200, self.store.get(request.kind, request.name, request.namespace)

    def _update(self, request: ApiRequest) -> tuple[int, Json]:
        target = (request.kind, request.name, request.body, request.namespace)
        return 200, self.operations.update(*target, request.part, request.dry)

    def _patch(self, request: ApiRequest) -> tuple[int, Json]:
        target = (request.kind, request.name, request.body, request.media, request.namespace)
        return 200, self.operations.patch(*target, request.part, request.dry)

    def _list(self, request: ApiRequest) -> tuple[int, Json]:
        with self.store.changed:
            chosen = [
                value for value in self.store.select(request.kind, request.namespace) if value in request.selection
            ]
            version = str(self.store.version)
        limit, begin = int(request.query.get("limit", 0) or 0), _begin(request.query.get("continue", ""))
        shown = chosen[begin : begin + limit] if limit else chosen[begin:]
        meta: Json = {"resourceVersion": version}
        if begin + len(shown) < len(chosen):
            meta["continue"] = base64.b64encode(str(begin + len(shown)).encode()).decode()
            meta["remainingItemCount"] = len(chosen) - begin - len(shown)
        kind = request.kind
        return 200, {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": meta, "items": shown}

    def _delete(self, request: ApiRequest) -> tuple[int, Json]:
        options = _options(request)
        value = self.operations.delete(request.kind, request.name, request.namespace, options)
        if request.kind == POD or value["metadata"].get("deletionTimestamp"):
            return 200, value
        details = {"name": request.name, "kind": request.kind.plural, "uid": value["metadata"]["uid"]}
        return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _deletecollection(self, request: ApiRequest) -> tuple[int, Json]:
        status, listed = self._list(request)
        for value in listed["items"]:
            meta = value["metadata"]
            self.operations.delete(request.kind, meta["name"], meta.get("namespace", ""), _options(request))
        return status, listed

    def _part(self, request: ApiRequest) -> tuple[int, Json]:
        """A subresource."""
        if request.part == "status" and request.kind.has_status:
            return getattr(self, f"_{request.verb}")(request)
        if (request.kind, request.part, request.method) == (POD, "eviction", "POST"):
            options = (request.body or {}).get("deleteOptions", {})
            self.operations.evict(request.name, request.namespace, options)
            return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        if (request.kind, request.part, request.method) == (SERVICE_ACCOUNT, "token", "POST"):
            self.store.get(SERVICE_ACCOUNT, request.name, request.namespace)
            return 201, request.body | {"status": {"token": self.token(request.namespace, request.name)}}
        if (request.kind, request.part, request.method) == (NAMESPACE, "finalize", "PUT"):
            return self._update(request)
        raise StatusError(404, "the server could not find the requested resource")

    def reviewed(self, user: User, body: Json) -> Json:
        """Answer `kubectl auth can-i`."""
        spec = body["spec"]
        attributes = spec.get("resourceAttributes", {})
        if "user" in spec:
            user = User(spec["user"], tuple(spec.get("groups", ())))
        part = attributes.get("subresource")
        resource = attributes.get("resource", "") + (f"/{part}" if part else "")
        target = attributes.get("namespace", ""), attributes.get("name", "")
        action = AccessRequest(attributes.get("verb", ""), attributes.get("group", ""), resource, *target)
        return body | {"status": {"allowed": rbac.allowed(self.store, user, action)}}

    def container_log(self, request: ApiRequest) -> Log:
        """The log of a pod's container.

        Raises:
            StatusError: 400 when the container has none yet or is not named, 404 when it or the pod is not there.
        """
        rbac.authorize(self.store, request.user, request.action)
        pod = self.store.get(POD, request.name, request.namespace)
        names = [container["name"] for container in pod["spec"]["containers"]]
        wanted = request.query.get("container") or (names[0] if len(names) == 1 else "")
        if not wanted:
            raise StatusError(
                400, f"a container name must be specified for pod {request.name}, choose one of: [{' '.join(names)}]"
            )
        if wanted not in (*names, *(item["name"] for item in pod["spec"].get("initContainers", []))):
            raise StatusError(400, f"container {wanted} is not valid for pod {request.name}")
        if self.log is None:
            raise missing(NAMESPACE, "kubelet")
        return self.log(pod, wanted)


def _begin(token: str) -> int:
    return int(base64.b64decode(token)) if token else 0


def _options(request: ApiRequest) -> Json:
    options = dict(request.body or {})
    for name in ("gracePeriodSeconds", "propagationPolicy"):
        if name in request.query:
            options[name] = request.query[name]
    if request.dry:
        options["dryRun"] = ["All"]
    if options.get("gracePeriodSeconds") is not None:
        options["gracePeriodSeconds"] = int(options["gracePeriodSeconds"])
    return options


class ApiServer(ThreadingHTTPServer):
    """Threads of open watches do not keep it."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    api: ClusterApi

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, but for those who have hung up."""
        if not isinstance(sys.exception(), GONE):
            super().handle_error(request, client_address)


class ApiHandler(BaseHTTPRequestHandler):
    """Speaks HTTP for the API that its server carries."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: ApiServer

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        url = urlsplit(self.path)
        self.server.api.requests.append((self.command, self.path))
        try:
            self._answer(url.path, {name: values[-1] for name, values in parse_qs(url.query).items()})
        except StatusError as error:
            self._send(error.code, error.status())
        except GONE:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - their names

    def _answer(self, path: str, query: dict[str, str]) -> None:
        api, body = self.server.api, self._body()
        user = api.user(self.headers["authorization"])
        if path.rpartition("/")[2] in REVIEWS:
            return self._send(201, api.reviewed(user, body))
        if (document := discovery.document(path, api.kinds)) is not None:
            return self._send(200, document)
        if not path.startswith(("/api/", "/apis/")):
            raise StatusError(404, "the server could not find the requested resource")
        media = self.headers.get("content-type", "").partition(";")[0]
        kind, namespace, name, part = api.find(path)
        self._routed(ApiRequest(self.command, kind, user, query, body, media, namespace, name, part))
        return None

    def _routed(self, request: ApiRequest) -> None:
        if request.watch:
            rbac.authorize(self.server.api.store, request.user, request.action)
            with self._stream("application/json") as write:
                for event in watched(self.server.api.store, request, self.server.api.stopped):
                    write(json.dumps(event).encode() + b"\n")
        elif (request.kind, request.part) == (POD, "log"):
            lines = _lines(self.server.api.container_log(request), request.query)
            with self._stream("text/plain") as write:
                for line in lines:
                    write(line)
        else:
            self._send(*self.server.api.answer(request))

    def _body(self) -> Any:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not content:
            return None
        if "protobuf" in self.headers.get("content-type", ""):
            raise StatusError(415, "the body of the request was in an unknown format: protobuf")
        try:
            read = strict_yaml.load_document if "yaml" in self.headers.get("content-type", "") else json.loads
            return read(content)
        except ValueError as error:
            raise StatusError(400, f"the body cannot be read: {error}") from None

    def _send(self, status: int, value: Json) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    @contextmanager
    def _stream(self, media: str) -> Iterator[Callable[[bytes], None]]:
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        yield self._chunk
        self._chunk(b"")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()


def _lines(log: Log, query: dict[str, str]) -> Iterator[bytes]:
    tail = int(query["tailLines"]) if "tailLines" in query else None
    seconds = float(query["sinceSeconds"]) if "sinceSeconds" in query else None
    return log.read(query.get("follow") in TRUE, tail, seconds, query.get("timestamps") in TRUE)


@contextmanager
def served(api: ClusterApi, certificate: Certificate | None = None) -> Iterator[int]:
    """Serve on a free port of the loopback interface, with a certificate on another one over TLS too; yields that."""
    with ExitStack() as stack:
        api.url = f"http://127.0.0.1:{_open(stack, api)}"
        port = _open(stack, api, certificate) if certificate else 0
        stack.callback(_stop, api)
        yield port


def _open(stack: ExitStack, api: ClusterApi, certificate: Certificate | None = None) -> int:
    server = ApiServer(("127.0.0.1", 0), ApiHandler)
    server.api = api
    if certificate:
        # a client's handshake is its own thread's work
        options: Any = {"server_side": True, "do_handshake_on_connect": False}
        server.socket = certificate.context.wrap_socket(server.socket, **options)
    stack.enter_context(serving(server))
    return server.server_port


def _stop(api: ClusterApi) -> None:
    api.stopped.set()
    with api.store.changed:
        api.store.changed.notify_all()
