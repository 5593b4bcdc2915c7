"""Cloud Run as far as releases go: an HTTP server that plays its API, and revisions that really answer.

Names and types of fields are those of the published discovery document (`run`, `v2`, revision 20230521; the node
selector is of a later one), as far as a release could use them; a body with any other field is refused. A change is an
operation that ends when time passes.
Revisions with names of their own are as Knative has them: written again with the same content, one stays what it is.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests

from components.release.targets import factory
from components.release.targets.cloudrun import Access
from tests.components.release.targets.versions import Counted, Fleet

PARENT = "projects/shop/locations/us-central1"
KINDS = ("UNSPECIFIED", "LATEST", "REVISION")
# a type, [the type of its items], {} for text -> text, or what an enumeration allows
SCHEMAS: dict[str, dict[str, Any]] = {
    "GoogleCloudRunV2Service": {
        "name": "string", "description": "string", "labels": {}, "annotations": {}, "client": "string",
        "clientVersion": "string", "etag": "string", "generation": "string", "uid": "string", "uri": "string",
        "ingress": ("INGRESS_TRAFFIC_ALL", "INGRESS_TRAFFIC_INTERNAL_ONLY", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"),
        "template": "GoogleCloudRunV2RevisionTemplate", "traffic": ["GoogleCloudRunV2TrafficTarget"],
        "trafficStatuses": ["GoogleCloudRunV2TrafficTargetStatus"], "terminalCondition": "GoogleCloudRunV2Condition",
        "latestCreatedRevision": "string", "latestReadyRevision": "string", "reconciling": "boolean",
        "deleteTime": "string",
    },
    "GoogleCloudRunV2RevisionTemplate": {
        "revision": "string", "labels": {}, "annotations": {}, "scaling": "GoogleCloudRunV2RevisionScaling",
        "timeout": "string", "serviceAccount": "string", "containers": ["GoogleCloudRunV2Container"],
        "maxInstanceRequestConcurrency": "integer", "sessionAffinity": "boolean",
        "nodeSelector": "GoogleCloudRunV2NodeSelector",
        "executionEnvironment": ("EXECUTION_ENVIRONMENT_GEN1", "EXECUTION_ENVIRONMENT_GEN2"),
    },
    "GoogleCloudRunV2NodeSelector": {"accelerator": "string"},
    "GoogleCloudRunV2RevisionScaling": {"minInstanceCount": "integer", "maxInstanceCount": "integer"},
    "GoogleCloudRunV2Container": {
        "name": "string", "image": "string", "command": ["string"], "args": ["string"], "workingDir": "string",
        "env": ["GoogleCloudRunV2EnvVar"], "ports": ["GoogleCloudRunV2ContainerPort"],
        "resources": "GoogleCloudRunV2ResourceRequirements", "startupProbe": "GoogleCloudRunV2Probe",
        "livenessProbe": "GoogleCloudRunV2Probe", "dependsOn": ["string"],
    },
    "GoogleCloudRunV2EnvVar": {"name": "string", "value": "string"},
    "GoogleCloudRunV2ContainerPort": {"name": "string", "containerPort": "integer"},
    "GoogleCloudRunV2ResourceRequirements": {"limits": {}, "cpuIdle": "boolean", "startupCpuBoost": "boolean"},
    "GoogleCloudRunV2Probe": {
        "httpGet": "GoogleCloudRunV2HTTPGetAction", "initialDelaySeconds": "integer", "periodSeconds": "integer",
        "timeoutSeconds": "integer", "failureThreshold": "integer",
    },
    "GoogleCloudRunV2HTTPGetAction": {"path": "string", "port": "integer"},
    "GoogleCloudRunV2TrafficTarget": {
        "type": tuple(f"TRAFFIC_TARGET_ALLOCATION_TYPE_{kind}" for kind in KINDS), "revision": "string",
        "percent": "integer", "tag": "string",
    },
    "GoogleCloudRunV2TrafficTargetStatus": {
        "type": tuple(f"TRAFFIC_TARGET_ALLOCATION_TYPE_{kind}" for kind in KINDS), "revision": "string",
        "percent": "integer", "tag": "string", "uri": "string",
    },
    "GoogleCloudRunV2Condition": {"type": "string", "state": "string", "message": "string"},
}  # fmt: skip
READ_ONLY = ("generation", "uid", "uri", "trafficStatuses", "terminalCondition", "latestCreatedRevision",
             "latestReadyRevision", "reconciling", "deleteTime")  # fmt: skip
PYTHON = {"string": str, "integer": int, "boolean": bool}


class RefusedError(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _need(is_right: bool, text: str, code: int = 400) -> None:
    if not is_right:
        raise RefusedError(code, text)


def check(value: Any, kind: Any, where: str = "") -> None:
    """Refuse what is not of a type of the discovery document."""
    if isinstance(kind, list):
        _need(isinstance(value, list), f"{where} is no list")
        for each in value:
            check(each, kind[0], where)
    elif isinstance(kind, tuple):
        _need(value in kind, f"{where} is {value!r}")
    elif kind == {}:
        _need(all(isinstance(text, str) for pair in value.items() for text in pair), f"{where} is {value!r}")
    elif kind in PYTHON:
        _need(type(value) is PYTHON[kind], f"{where} is {value!r}")
    else:
        for name, each in value.items():
            _need(name in SCHEMAS[kind], f"Unknown name \"{name}\" at '{where}': Cannot find field.")
            check(each, SCHEMAS[kind][name], f"{where}.{name}")


class Run:
    """What there is, and what is changing it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.counted, self.root = fleet, Counted(), ""
        self.services: dict[str, dict[str, Any]] = {}
        self.revisions: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []  # revisions that have got a request
        self._operations: dict[str, dict[str, Any]] = {}
        self._pending: dict[str, Callable[[], str]] = {}
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def clear(self) -> None:
        for kind in (self.services, self.revisions, self.asked, self._operations, self._pending, self._seen):
            kind.clear()
        self.counted.calls.clear()

    def saved(self) -> Callable[[], None]:
        """A function that makes everything as it is now."""
        services, revisions = deepcopy(self.services), deepcopy(self.revisions)

        def restore() -> None:
            self.clear()
            self.services.update(deepcopy(services))
            self.revisions.update(deepcopy(revisions))

        return restore

    def state(self) -> dict[str, Any]:
        """All that there is."""
        services = {
            _id(name): (value["template"], value["traffic"], value.get("trafficStatuses"), value["labels"])
            for name, value in self.services.items()
        }
        return {"services": services, "revisions": sorted(map(_id, self.revisions))}

    def pause(self, _: float) -> None:
        """Time passes: what was under way at the last look ends."""
        for name in self._seen:
            if why := self._pending.pop(name)():
                self._operations[name]["error"] = {"code": 9, "message": why}
            self._operations[name]["done"] = True
        self._seen = set(self._pending)

    def called(self, method: str, path: str, given: dict[str, str], body: Any) -> Any:
        """Answer a request to the API."""
        with self._lock:
            name = path.removeprefix("/v2/")
            if method == "POST":
                _need(name == f"{PARENT}/services", f"no {name}", 404)
                return self._created(f"{name}/{given.pop('serviceId')}", body)
            if method == "GET" and name.endswith("/revisions"):
                return self._page(name, int(given.get("pageToken", 0)))
            kind = next(
                each
                for each in (self._operations, self.revisions, self.services)
                if name in each or each is self.services
            )
            _need(name in kind, f"Resource '{_id(name)}' was not found", 404)
            if method == "GET":
                return kind[name]
            _need(given.get("etag", kind[name]["etag"]) == kind[name]["etag"], "ABORTED: etag", 409)
            if method == "DELETE":
                return self._deleted(kind, name)
            return self._patched(name, body)

    def _created(self, name: str, body: dict[str, Any]) -> Any:
        _need(bool(re.fullmatch(r"[a-z]([a-z0-9-]{0,47}[a-z0-9])?", _id(name))), f"service ID {_id(name)}")
        _need(name not in self.services, "ALREADY_EXISTS", 409)
        self._check(name, body)
        self.services[name] = {"name": name, "etag": "0", "uri": f"{self.root}/at/{_id(name)}"}
        return self._written(name, body)

    def _patched(self, name: str, body: dict[str, Any]) -> Any:
        _need(not self.services[name].get("reconciling"), "ABORTED: the service is being changed", 409)
        _need(body.get("etag") == self.services[name]["etag"], "ABORTED: the service has changed", 409)
        self._check(name, body)
        return self._written(name, body)

    def _check(self, name: str, body: dict[str, Any]) -> None:
        check(body, "GoogleCloudRunV2Service")
        template, traffic = body["template"], body["traffic"]
        _need(bool(re.fullmatch(rf"{_id(name)}-[a-z0-9-]{{1,40}}", template["revision"])), template["revision"])
        before = self.revisions.get(f"{name}/revisions/{template['revision']}", {"template": template})["template"]
        _need(before == template, "a revision of this name has other content")
        going = "deleteTime" in self.revisions.get(f"{name}/revisions/{template['revision']}", ())
        _need(not going, "a revision of this name is being deleted")
        _need(sum(each.get("percent", 0) for each in traffic) == 100, "the percentages do not make 100")
        tags = [each["tag"] for each in traffic]
        _need(len(set(tags)) == len(tags) and all(len(tag + _id(name)) <= 46 for tag in tags), f"tags {tags}")
        for each in traffic:
            there = each["revision"] == template["revision"] or f"{name}/revisions/{each['revision']}" in self.revisions
            _need(there, f"no revision {each['revision']}")

    def _written(self, name: str, body: dict[str, Any]) -> Any:
        service, wanted = self.services[name], {key: value for key, value in body.items() if key not in READ_ONLY}
        for key in [key for key in service if key not in (*READ_ONLY, *wanted, "name", "etag")]:
            del service[key]  # without a mask all that can be written is replaced
        service.update(wanted, etag=str(int(service["etag"]) + 1), reconciling=True)
        revision = f"{name}/revisions/{wanted['template']['revision']}"
        self.revisions.setdefault(revision, {"name": revision, "template": wanted["template"], "etag": "0"})
        service["latestCreatedRevision"] = revision

        def effect() -> str:
            args = wanted["template"]["containers"][0]["args"]
            starts = self.fleet.starts(args[args.index("--model") + 1])
            why = "" if starts else "The user-provided container failed to start and listen on the port"
            service["terminalCondition"] = {
                "state": "CONDITION_FAILED" if why else "CONDITION_SUCCEEDED",
                "message": why,
            }
            if not why:
                service["trafficStatuses"] = [self._status(service, each) for each in wanted["traffic"]]
            service["reconciling"] = False
            return why

        return self._begun(effect)

    def _status(self, service: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
        said = {key: value for key, value in target.items() if value}  # 0 is not said
        return said | {"uri": f"{service['uri']}/{target['tag']}"}

    def _deleted(self, kind: dict[str, Any], name: str) -> Any:
        used = [
            each["revision"]
            for service in self.services.values()
            for each in (service["template"], *service["traffic"], *service.get("trafficStatuses", ()))
        ]
        _need(kind is self.services or _id(name) not in used, f"revision {_id(name)} is in use")
        _need("deleteTime" not in kind[name], "it is being deleted")
        kind[name]["deleteTime"] = "2026-01-01T00:00:00Z"

        def effect() -> str:
            for each in [each for each in self.revisions if each == name or each.startswith(f"{name}/")]:
                del self.revisions[each]
            self.services.pop(name, None)
            return ""

        return self._begun(effect)

    def _begun(self, effect: Callable[[], str]) -> Any:
        name = f"{PARENT}/operations/{len(self._operations)}"
        self._operations[name], self._pending[name] = {"name": name}, effect
        return self._operations[name]

    def _page(self, of: str, number: int) -> Any:
        """A page holds one revision."""
        found = [value for name, value in sorted(self.revisions.items()) if name.startswith(f"{of}/")]
        more = {"nextPageToken": str(number + 1)} if number + 1 < len(found) else {}
        return {"revisions": found[number : number + 1]} | more

    def served(self, path: str, identity: str | None, body: bytes) -> bytes:
        """Answer a request to a revision."""
        service, tag = path.removeprefix("/at/").split("/")[:2]
        found = self.services[f"{PARENT}/services/{service}"]
        _need(identity == f"Bearer for {found['uri']}", "The request was not authenticated", 403)
        revision = next(each["revision"] for each in found["trafficStatuses"] if each["tag"] == tag)
        self.asked.append(revision)
        args = self.revisions[f"{PARENT}/services/{service}/revisions/{revision}"]["template"]["containers"][0]["args"]
        return self.fleet.answer(args[args.index("--model") + 1], body)


def _id(name: str) -> str:
    return name.rpartition("/")[2]


def _handler(run: Run) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                self._answer(200, self._said(body))
            except RefusedError as error:
                self._answer(error.code, json.dumps({"error": {"code": error.code, "message": str(error)}}).encode())

        do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815

        def _said(self, body: bytes) -> bytes:
            asked = urlsplit(self.path)
            if asked.path.startswith("/at/"):
                return run.served(asked.path, self.headers.get("Authorization"), body)
            content = json.loads(body) if body else None
            return json.dumps(run.called(self.command, asked.path, dict(parse_qsl(asked.query)), content)).encode()

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


class Session(requests.Session):
    """A session that counts its requests."""

    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self._counted = counted

    def request(self, method: str, url: str, *given: Any, **named: Any) -> requests.Response:
        self._counted.count(f"{method} {urlsplit(url).path}")
        return super().request(method, url, *given, **named)


@contextmanager
def cloud_run(fleet: Fleet) -> Iterator[tuple[Run, Access]]:
    """A project without anything in it, and how it is reached."""
    run = Run(fleet)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(run))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    run.root = f"http://127.0.0.1:{server.server_port}"

    def ask(url: str, audience: str, body: bytes) -> bytes:
        run.counted.count("invoke")
        return factory._post(url, body, f"for {audience}", "it needs a role")

    try:
        with Session(run.counted) as session:
            yield run, Access(session, ask, run.root)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
