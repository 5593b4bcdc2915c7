"""Cloud Run: a service named after the use case, a revision a version, whose name says what is in it.

A revision comes in at 0 %, with a tag that gives it an address of its own, and is asked there first. So no request
reaches one that does not start or does not answer right. Then one call gives each its percentage. The service is
written as it was read, with its etag: it is refused when somebody else has changed it meanwhile.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from components.release.targets import (
    GPU,
    BadVersionError,
    Part,
    check,
    files,
    insist,
    on_gpu,
    parsed,
    percents,
    signin,
)
from nightshift import storage
from nightshift.errors import UnavailableError, UserError, may_pass

LABEL = "nightshift"
PORT = 8080
NOT_READY = 9  # FAILED_PRECONDITION: a revision has not become ready
POLL_SECONDS, POLLS, TIMEOUT_SECONDS = 5.0, 240, 60
STARTUP = {"httpGet": {"path": "/v2/health/ready"}, "periodSeconds": 5, "failureThreshold": 24}

Object = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where the service is and what its containers run.

    Attributes:
        project: of Google Cloud.
        region: such as us-central1.
        image: of `containers/serving`, in a registry that Cloud Run can reach; of `serving-gpu` for a GPU.
        account: e-mail of the service account that the containers act under, which may read the registry.
        cpu: CPUs of an instance: 1, 2, 4 or 8.
        memory: of an instance.
        accelerator: its GPU, such as nvidia-l4, one an instance; empty without.
        min_replicas: instances of a version, at least; 0 lets one go that gets no requests.
        max_replicas: and at most.
        concurrency: requests that an instance is given at the same time.
        artifacts: where the registry's server keeps its files, such as gs://bucket/mlflow; empty without a server.
    """

    project: str
    region: str
    image: str
    account: str
    cpu: int = 1
    memory: str = "1Gi"
    accelerator: str = ""
    min_replicas: int = 0
    max_replicas: int = 4
    concurrency: int = 80
    artifacts: str = ""


@dataclass(frozen=True)
class Access:
    """How Google Cloud is reached.

    Attributes:
        session: `google.auth.transport.requests.AuthorizedSession`.
        ask: posts a body to a URL, with an identity for an audience, and returns the answer's.
        root: of the API.
    """

    session: Any
    ask: Callable[[str, str, bytes], bytes]
    root: str = "https://run.googleapis.com"


class CloudRun:
    """The service of a use case."""

    splits = True

    def __init__(self, name: str, place: Place, access: Access, pause: Callable[[float], None] = time.sleep) -> None:
        """Call nothing.

        Args:
            name: the use case.
            place: where its versions run, and on what.
            access: to Google Cloud.
            pause: called with the seconds between two looks.
        """
        self._name, self._place, self._access, self._pause = name, place, access, pause
        self._parent = f"projects/{place.project}/locations/{place.region}"
        self._service = f"{self._parent}/services/{name}"

    def apply(self, parts: Sequence[Part]) -> None:
        """Have a revision of each version, ask those that get nothing yet, then divide the requests; see `Target`."""
        shares = zip(parts, percents(parts, "Cloud Run"), strict=True)
        wanted = [self._share(self._revision(part), percent) for part, percent in shares]
        found = self._settled()
        for part in parts:
            if self._revision(part) not in _statuses(found):
                self._rested(f"{self._service}/revisions/{self._revision(part)}")  # one of this name may be going
                found = self._written(found, part, [*_traffic(found), self._newcomer(found, part)])
            if not _statuses(found).get(self._revision(part), {}).get("percent"):
                check(part, self._asked(found, part))
        if not self._is_so(found, parts[-1], wanted):
            self._written(found, parts[-1], wanted)

    def serving(self) -> dict[int, float]:
        """Return what the service says of its revisions; see `Target`."""
        statuses = _statuses(self._checked(self._call("GET", self._service))).items()
        return {self._version(revision): each["percent"] / 100 for revision, each in statuses if each.get("percent")}

    def ask(self, part: Part) -> Any:
        """Ask a version's revision by the address of its tag; see `Target`."""
        return self._asked(self._settled(), part)

    def measured(self, *_: object) -> None:
        """Say nothing; see `Target`."""

    def clean(self, parts: Sequence[Part]) -> None:
        """Delete our revisions that are not needed; without any, the service; see `Target`."""
        found = self._settled()
        if not parts:
            self._delete(found)
            return
        needed = {self._revision(part) for part in parts}
        for _ in range(POLLS):
            unneeded = [each for each in self._revisions() if _id(each["name"]) not in needed]
            if not unneeded:
                return
            for each in unneeded:
                if "deleteTime" not in each:
                    self._call("DELETE", each["name"])
            self._pause(POLL_SECONDS)
        raise UnavailableError(f"service {self._name!r} still has revisions that are not needed; run it again")

    def _settled(self) -> Object | None:
        """Return the service once nothing is changing it, None when there is none."""
        return self._checked(self._rested(self._service))

    def _rested(self, name: str) -> Object | None:
        """Return what bears a name once nothing is changing it, None when nothing does."""
        for _ in range(POLLS):
            found = self._call("GET", name)
            if not found or not (found.get("reconciling") or "deleteTime" in found):
                return found
            self._pause(POLL_SECONDS)
        raise UnavailableError(f"Cloud Run is still changing {name}; look at its log, then run it again")

    def _checked(self, found: Object | None) -> Object | None:
        """Return the service.

        Raises:
            UserError: when it is not ours, or somebody else's revision answers there.
        """
        if found and found.get("labels", {}).get(LABEL) != self._name:
            raise UserError(
                f"service {self._name!r} exists and has no label {LABEL}={self._name}; delete it or give it this "
                "label, or give the use case another name"
            )
        for revision in _statuses(found):
            if not self._version(revision):
                raise UserError(f"service {self._name!r} is answered by {revision!r}, which is not ours; take it out")
        return found

    def _written(self, found: Object | None, part: Part, traffic: list[Object]) -> Object | None:
        """Write the service, with a version as its newest, and wait until it is so.

        Raises:
            BadVersionError: when the version does not start.
        """
        body = {"template": self._template(part), "traffic": traffic}
        if found:
            operation = self._call("PATCH", self._service, json=found | body)
        else:
            made = {"labels": {LABEL: self._name}} | body
            operation = self._call("POST", f"{self._parent}/services", json=made, params={"serviceId": self._name})
        self._finish(operation)
        return self._settled()

    def _is_so(self, found: Object | None, newest: Part, traffic: list[Object]) -> bool:
        """Return whether the service is as it is wanted."""
        assert found
        return found["template"].get("revision") == self._revision(newest) and _traffic(found) == traffic

    def _newcomer(self, found: Object | None, part: Part) -> Object:
        """Return what a revision gets when it comes in: nothing, unless it is the first one."""
        return self._share(self._revision(part), 0 if _statuses(found) else 100)

    def _share(self, revision: str, percent: int) -> Object:
        tag = revision.removeprefix(f"{self._name}-")
        kind = "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"
        return {"type": kind, "revision": revision, "percent": percent, "tag": tag}

    def _asked(self, found: Object | None, part: Part) -> Any:
        each = _statuses(found).get(self._revision(part))
        if found is None or each is None:
            raise UnavailableError(f"service {self._name!r} has changed meanwhile; run it again")
        url, audience, body = f"{each['uri']}/score", found["uri"], json.dumps(part.request).encode()
        return insist(part, lambda: parsed(url, self._access.ask(url, audience, body)), self._pause)

    def _template(self, part: Part) -> Object:
        return self._content(part) | {"revision": self._revision(part)}

    def _content(self, part: Part) -> Object:
        """Return what a version runs."""
        place = self._place
        limits = {"cpu": str(place.cpu), "memory": place.memory} | ({GPU: "1"} if place.accelerator else {})
        container = {
            "image": place.image,
            "command": ["python", "-m", "nightshift.serving"],
            "args": ["--model", files(part.version, place.artifacts), "--name", self._name, *on_gpu(place.accelerator)],
            "ports": [{"containerPort": PORT}],
            "resources": {"limits": limits, "cpuIdle": not place.accelerator},  # a GPU is paid as long as it is there
            "startupProbe": STARTUP,
        }
        return {
            "scaling": {"minInstanceCount": place.min_replicas, "maxInstanceCount": place.max_replicas},
            "maxInstanceRequestConcurrency": place.concurrency,
            "serviceAccount": place.account,
            "containers": [container],
        } | ({"nodeSelector": {"accelerator": place.accelerator}} if place.accelerator else {})

    def _revision(self, part: Part) -> str:
        content = storage.fingerprint([part.version.sha256, self._content(part)])
        return f"{self._name}-v{part.version.version}-{content[:8]}"

    def _version(self, revision: str) -> int:
        """Return the version of a revision, 0 when it is not ours."""
        found = re.fullmatch(rf"{self._name}-v([1-9]\d*)-[0-9a-f]{{8}}", revision)
        return int(found[1]) if found else 0

    def _revisions(self) -> Iterator[Object]:
        """Yield our revisions."""
        token = ""
        while True:
            page = self._call("GET", f"{self._service}/revisions", params={"pageToken": token} if token else {}) or {}
            yield from (each for each in page.get("revisions", ()) if self._version(_id(each["name"])))
            if not (token := page.get("nextPageToken", "")):
                return

    def _delete(self, found: Object | None) -> None:
        if found:
            self._finish(self._call("DELETE", self._service, params={"etag": found["etag"]}))

    def _finish(self, operation: Object | None) -> None:
        """Wait for the end of an operation.

        Raises:
            BadVersionError: when a version does not start.
            UserError: when it fails otherwise.
        """
        for _ in range(POLLS):
            if not operation or operation.get("done"):
                break
            self._pause(POLL_SECONDS)
            operation = self._call("GET", operation["name"])
        else:
            raise UnavailableError(f"Cloud Run has not changed service {self._name!r} yet; run it again")
        if operation and "error" in operation:
            kind = BadVersionError if operation["error"].get("code") == NOT_READY else UserError
            raise kind(f"Cloud Run refuses: {operation['error'].get('message')}; look at its log")

    def _call(self, method: str, name: str, **given: Any) -> Object | None:
        """Call Cloud Run; None when nothing is of the name that is looked for or deleted.

        Raises:
            UserError: when it refuses.
            UnavailableError: when it does not answer, or somebody else has changed the service meanwhile.
        """
        from google.auth.exceptions import GoogleAuthError
        from requests import RequestException

        url = f"{self._access.root}/v2/{name}"
        try:
            answer = self._access.session.request(method, url, timeout=TIMEOUT_SECONDS, **given)
        except RequestException as error:
            raise UnavailableError(f"Cloud Run does not answer: {error}; run it again") from None
        except GoogleAuthError as error:
            raise signin.failed(error, "Cloud Run cannot be asked") from None
        if answer.status_code == HTTPStatus.NOT_FOUND and method in ("GET", "DELETE"):
            return None
        if answer.status_code == HTTPStatus.CONFLICT or may_pass(answer.status_code):
            raise UnavailableError(f"Cloud Run: {_said(answer)}; run it again")
        if not answer.ok:
            raise UserError(f"Cloud Run refuses to {method} {name}: {_said(answer)}")
        found: Object = answer.json()
        return found


def _said(answer: Any) -> str:
    """Return why a request was refused."""
    try:
        return f"{answer.json()['error']['message']} ({answer.status_code})"
    except (ValueError, LookupError, TypeError):
        return f"{answer.text[:200]} ({answer.status_code})"


def _id(name: str) -> str:
    return name.rpartition("/")[2]


def _statuses(service: Object | None) -> dict[str, Object]:
    """Return what the service says of the revisions that get requests or have an address."""
    return {_id(each["revision"]): each for each in (service or {}).get("trafficStatuses", ()) if "revision" in each}


def _traffic(service: Object | None) -> list[Object]:
    """Return how the requests are divided, as the service is told it."""
    names = ("type", "revision", "percent", "tag")
    return [{name: each[name] for name in names if name in each} for each in _statuses(service).values()]
