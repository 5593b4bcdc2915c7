"""Cloud Run: a service named after the use case, a revision a version, whose name says what is in it.

A revision comes in at 0 %, with a tag that gives it an address of its own, and is asked there first. So no request
reaches one that does not start or does not answer right. Then one call gives each its percentage. Only template and
traffic of the service are written, with its etag: that is refused when somebody else has changed it meanwhile.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.cloud.run_v2 import Revision, RevisionTemplate, Service, TrafficTarget, TrafficTargetAllocationType

from components.release.targets import (
    GPU,
    TOLERANCE,
    VersionShare,
    ask_until_valid,
    check,
    files,
    on_gpu,
    parse_answer,
    percents,
)
from components.release.targets.google_cloud import POLLING, Api, ResourceMissingError
from nightshift import storage
from nightshift.runtime.errors import UnavailableError, UserError

LABEL = "nightshift"
PORT = 8080
PINNED = TrafficTargetAllocationType.TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION
STARTUP = {"http_get": {"path": "/v2/health/ready"}, "period_seconds": 5, "failure_threshold": 24}


@dataclass(frozen=True)
class CloudRunSettings:
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
        concurrency: requests in flight at one instance, as the load test measures them; another one is added for more.
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
class CloudRunClients:
    """How Cloud Run and its services are reached.

    Attributes:
        services: `run_v2.ServicesClient`.
        revisions: `run_v2.RevisionsClient`.
        ask: posts a body to a URL, with an identity for an audience, and returns the answer's.
        polling: how often a change is looked at, and how long.
    """

    services: Any
    revisions: Any
    ask: Callable[[str, str, bytes], bytes]
    polling: Any = POLLING


class CloudRun:
    """The service of a use case."""

    splits, tolerance = True, TOLERANCE

    def __init__(
        self,
        name: str,
        settings: CloudRunSettings,
        clients: CloudRunClients,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Makes no calls.

        Args:
            name: the use case.
            settings: where its versions run, and on what.
            clients: of Google Cloud.
            pause: called with the seconds between two requests to a version.
        """
        self._name, self._settings, self._clients, self._pause = name, settings, clients, pause
        self._api = Api("Cloud Run", clients.polling)
        self._parent = f"projects/{settings.project}/locations/{settings.region}"
        self._service = f"{self._parent}/services/{name}"

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Have a revision of each version, ask those that get nothing yet, then divide the requests."""
        percentages = zip(split, percents(split, "Cloud Run"), strict=True)
        traffic = [self._target(self._revision(share), percent) for share, percent in percentages]
        service = self._await_settled()
        for share in split:
            service = self._start(service, share)
        assert service, "there is a version to serve"
        if service.template.revision != traffic[-1].revision or _traffic(service) != traffic:
            self._write(service, split[-1], traffic)

    def serving(self) -> dict[int, float]:
        """Return what the service says of its revisions; see `ReleaseTarget`."""
        service = self._check_ownership(self._api.find(self._clients.services.get_service, self._service))
        statuses = _statuses(service).items()
        return {self._version(revision): status.percent / 100 for revision, status in statuses if status.percent}

    def ask(self, share: VersionShare) -> Any:
        """Ask a version's revision by the address of its tag; see `ReleaseTarget`."""
        return self._ask(self._await_settled(), share)

    def measure(self, *_: object) -> None:
        """Not available on this platform; see `ReleaseTarget`."""

    def clean(self, split: Sequence[VersionShare]) -> None:
        """Delete our revisions that are not needed; without any, the service; see `ReleaseTarget`."""
        service = self._await_settled()
        if service and not split:
            self._api.change(self._clients.services.delete_service, {"name": self._service, "etag": service.etag})
        needed = {self._revision(share) for share in split}
        for revision in self._revisions() if split else ():
            if _id(revision.name) not in needed:
                self._delete(revision)

    def _await_settled(self) -> Service | None:
        """Return the service once nothing is changing it, None when there is none."""
        self._wait(self._clients.services.get_service, self._service)
        return self._check_ownership(self._api.find(self._clients.services.get_service, self._service))

    def _wait(self, get: Callable[..., Any], name: str) -> None:
        """Wait until nothing is changing what bears a name, or there is nothing."""

        def is_settled() -> bool:
            resource = self._api.find(get, name)
            return not resource or not (resource.reconciling or resource.delete_time)

        self._api.wait(is_settled, f"{name} has been changing")

    def _check_ownership(self, service: Service | None) -> Service | None:
        """Return the service.

        Raises:
            UserError: when it is not ours, or somebody else's revision answers there.
        """
        if service and service.labels.get(LABEL) != self._name:
            raise UserError(
                f"service {self._name!r} exists and has no label {LABEL}={self._name}; delete it or give it this "
                "label, or give the use case another name"
            )
        for revision in _statuses(service):
            if not self._version(revision):
                raise UserError(f"service {self._name!r} is answered by {revision!r}, which is not ours; take it out")
        return service

    def _start(self, service: Service | None, share: VersionShare) -> Service:
        """Return the service with a revision of a version, which is asked before it gets any requests."""
        revision = self._revision(share)
        if service is None or revision not in _statuses(service):
            self._wait(self._clients.revisions.get_revision, f"{self._service}/revisions/{revision}")
            newcomer = self._target(revision, 0 if _statuses(service) else 100)
            service = self._write(service, share, [*_traffic(service), newcomer])
        if revision not in _statuses(service) or not _statuses(service)[revision].percent:
            check(share, self._ask(service, share))
        return service

    def _write(self, service: Service | None, share: VersionShare, traffic: list[TrafficTarget]) -> Service:
        """Write the service, with a version as its newest, and return it once it is so.

        Raises:
            BadVersionError: when the version does not start.
            UnavailableError: when somebody else has changed the service meanwhile.
        """
        content = {"template": self._template(share), "traffic": traffic}
        if service:
            changed = {"name": self._service, "etag": service.etag, **content}
            request: dict[str, Any] = {"service": changed, "update_mask": {"paths": list(content)}}
            return self._api.change(self._clients.services.update_service, request)
        created = {"labels": {LABEL: self._name}, **content}
        request = {"parent": self._parent, "service_id": self._name, "service": created}
        return self._api.change(self._clients.services.create_service, request)

    def _target(self, revision: str, percent: int) -> TrafficTarget:
        tag = revision.removeprefix(f"{self._name}-")
        return TrafficTarget(type_=PINNED, revision=revision, percent=percent, tag=tag)

    def _ask(self, service: Service | None, share: VersionShare) -> Any:
        status = _statuses(service).get(self._revision(share))
        if service is None or status is None:
            raise UnavailableError(f"service {self._name!r} has changed meanwhile; run it again")
        url, body = f"{status.uri}/score", json.dumps(share.request).encode()
        return ask_until_valid(share, lambda: parse_answer(url, self._clients.ask(url, service.uri, body)), self._pause)

    def _template(self, share: VersionShare) -> RevisionTemplate:
        return RevisionTemplate(self._content(share) | {"revision": self._revision(share)})

    def _content(self, share: VersionShare) -> dict[str, Any]:
        """Return what a version runs."""
        settings = self._settings
        limits = {"cpu": str(settings.cpu), "memory": settings.memory} | ({GPU: "1"} if settings.accelerator else {})
        model = files(share.version, settings.artifacts)
        container = {
            "image": settings.image,
            "command": ["python", "-m", "nightshift.serving"],
            "args": ["--model", model, "--name", self._name, *on_gpu(settings.accelerator)],
            "ports": [{"container_port": PORT}],
            # a GPU is paid as long as it is there
            "resources": {"limits": limits, "cpu_idle": not settings.accelerator},
            "startup_probe": STARTUP,
        }
        return {
            "scaling": {"min_instance_count": settings.min_replicas, "max_instance_count": settings.max_replicas},
            "max_instance_request_concurrency": settings.concurrency,
            "service_account": settings.account,
            "containers": [container],
        } | ({"node_selector": {"accelerator": settings.accelerator}} if settings.accelerator else {})

    def _revision(self, share: VersionShare) -> str:
        content = storage.fingerprint([share.version.sha256, self._content(share)])
        return f"{self._name}-v{share.version.version}-{content[:8]}"

    def _version(self, revision: str) -> int:
        """Return the version of a revision, 0 when it is not ours."""
        match = re.fullmatch(rf"{self._name}-v([1-9]\d*)-[0-9a-f]{{8}}", revision)
        return int(match[1]) if match else 0

    def _revisions(self) -> list[Revision]:
        """Return our revisions."""
        revisions = self._api.list_all(self._clients.revisions.list_revisions, {"parent": self._service})
        return [revision for revision in revisions if self._version(_id(revision.name))]

    def _delete(self, revision: Revision) -> None:
        if revision.delete_time:  # by a process before this one
            self._wait(self._clients.revisions.get_revision, revision.name)
        else:
            with suppress(ResourceMissingError):
                self._api.change(self._clients.revisions.delete_revision, {"name": revision.name})


def _id(name: str) -> str:
    return name.rpartition("/")[2]


def _statuses(service: Service | None) -> dict[str, Any]:
    """Return what the service says of the revisions that get requests or have an address."""
    return {_id(status.revision): status for status in service.traffic_statuses if status.revision} if service else {}


def _traffic(service: Service | None) -> list[TrafficTarget]:
    """Return how the requests are divided, as the service is told it."""
    return [
        TrafficTarget(type_=status.type_, revision=revision, percent=status.percent, tag=status.tag)
        for revision, status in _statuses(service).items()
    ]
