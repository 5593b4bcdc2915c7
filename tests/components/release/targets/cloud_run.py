"""Cloud Run as far as releases go: a gRPC server that takes its real messages, and revisions that really answer.

What a request may hold is read off the published messages (`run_v2.types`). A change is an operation that ends when
time passes. Revisions with names of their own are as Knative has them: written again with the same content, one stays
what it is.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import grpc
from google.cloud import run_v2 as api
from google.longrunning import operations_pb2

from components.release.targets.cloudrun import CloudRun, CloudRunClients, CloudRunSettings
from tests.components.release.targets import google_server
from tests.components.release.targets.google_server import (
    IMPATIENT,
    POLLING,
    Methods,
    Operations,
    last,
    need,
    paged,
)
from tests.components.release.targets.platform import Platform
from tests.components.release.targets.versions import Fleet

PARENT = "projects/shop/locations/us-central1"
SETTINGS = CloudRunSettings(
    "shop", "us-central1", "registry.example.com/nightshift/serving:0.3.0", "serving@shop.example.com"
)
KINDS = (api.ServicesClient, api.RevisionsClient)
ABORTED, NOT_FOUND = grpc.StatusCode.ABORTED, grpc.StatusCode.NOT_FOUND


class Run(Platform):
    """A project: what there is, and what is changing it."""

    asks_first = True
    percentages = "Cloud Run"
    failure = "Cloud Run refuses: .*failed to start"
    late = "Cloud Run: "
    gpu: ClassVar = {"accelerator": "nvidia-l4", "cpu": 4, "memory": "16Gi"}

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self.services: dict[str, api.Service] = {}
        self.revisions: dict[str, api.Revision] = {}
        self.templates: dict[str, api.RevisionTemplate] = {}  # templates of the revisions
        self.operations = Operations()
        self.clients: CloudRunClients

    def target(self, name: str = "fraud", **settings: Any) -> CloudRun:
        return CloudRun(name, dataclasses.replace(SETTINGS, **settings), self.clients, lambda _: None)

    def nowhere(self) -> CloudRun:
        channel = grpc.insecure_channel("127.0.0.1:9")
        clients = CloudRunClients(*google_server.clients(channel, *KINDS), ask=self._ask)
        return CloudRun("fraud", SETTINGS, clients, lambda _: None)

    @contextmanager
    def standing_still(self) -> Iterator[CloudRun]:
        self.operations.stands_still = True
        yield CloudRun("fraud", SETTINGS, dataclasses.replace(self.clients, polling=IMPATIENT), lambda _: None)
        self.operations.stands_still = False

    def state(self) -> dict[str, Any]:
        services = {
            last(name): (
                service.template.revision,
                [(target.revision, target.percent) for target in service.traffic],
                [(status.revision, status.percent, status.tag) for status in service.traffic_statuses],
                dict(service.labels),
                service.ingress,
            )
            for name, service in self.services.items()
        }
        return {"services": services, "revisions": sorted(map(last, self.revisions))}

    def versions(self) -> set[int]:
        return {int(last(name).split("-v")[1].split("-")[0]) for name in self.revisions}

    def clear(self) -> None:
        for kind in (self.services, self.revisions, self.templates):
            kind.clear()
        self.operations.clear()

    def saved(self) -> Callable[[], None]:
        kinds = (api.Service, self.services), (api.Revision, self.revisions), (api.RevisionTemplate, self.templates)
        return google_server.save(self, *kinds)

    def intrude(self) -> None:
        self.service.labels["team"], self.service.etag = "somebody", "theirs"

    @property
    def foreign(self) -> Sequence[tuple[Callable[[], None], str]]:
        def relabel() -> None:
            self.service.labels = {"team": "somebody"}

        def deploy() -> None:
            self.service.traffic_statuses[0].revision = "fraud-00002-abc"

        return (
            (relabel, "service 'fraud' exists and has no label nightshift=fraud"),
            (deploy, "service 'fraud' is answered by 'fraud-00002-abc', which is not ours"),
        )

    @property
    def service(self) -> api.Service:
        return self.services[f"{PARENT}/services/fraud"]

    def command(self) -> list[str]:
        (container,) = self.service.template.containers
        return list(container.args)

    @property
    def methods(self) -> dict[str, Methods]:
        operation = operations_pb2.Operation
        return {
            "google.cloud.run.v2.Services": {
                "GetService": (api.GetServiceRequest, api.Service, partial(self._get, self.services)),
                "CreateService": (api.CreateServiceRequest, operation, self._create),
                "UpdateService": (api.UpdateServiceRequest, operation, self._update),
                "DeleteService": (api.DeleteServiceRequest, operation, partial(self._delete, self.services)),
            },
            "google.cloud.run.v2.Revisions": {
                "GetRevision": (api.GetRevisionRequest, api.Revision, partial(self._get, self.revisions)),
                "ListRevisions": (api.ListRevisionsRequest, api.ListRevisionsResponse, self._list),
                "DeleteRevision": (api.DeleteRevisionRequest, operation, partial(self._delete, self.revisions)),
            },
            "google.longrunning.Operations": self.operations.methods,
        }

    def _get(self, kind: dict[str, Any], request: Any) -> Any:
        self.operations.look()
        need(request.name in kind, f"Resource '{last(request.name)}' was not found", NOT_FOUND)
        return kind[request.name]

    def _create(self, request: api.CreateServiceRequest) -> operations_pb2.Operation:
        name = f"{request.parent}/services/{request.service_id}"
        need(request.parent == PARENT, f"no {request.parent}", NOT_FOUND)
        need(bool(re.fullmatch(r"[a-z]([a-z0-9-]{0,47}[a-z0-9])?", request.service_id)), f"name {request.service_id}")
        need(name not in self.services, f"{name} already exists", grpc.StatusCode.ALREADY_EXISTS)
        self._check(name, request.service)
        uri = f"https://{request.service_id}.example.com"
        self.services[name] = api.Service(name=name, etag="0", uri=uri, labels=request.service.labels)
        return self._write(name, request.service)

    def _update(self, request: api.UpdateServiceRequest) -> operations_pb2.Operation:
        name = request.service.name
        need(list(request.update_mask.paths) == ["template", "traffic"], f"mask {request.update_mask}")
        need(not self.services[name].reconciling, "the service is being changed", ABORTED)
        need(request.service.etag == self.services[name].etag, "the service has changed", ABORTED)
        self._check(name, request.service)
        return self._write(name, request.service)

    def _check(self, name: str, wanted: api.Service) -> None:
        revision = wanted.template.revision
        need(bool(re.fullmatch(rf"{last(name)}-[a-z0-9-]{{1,40}}", revision)), f"name {revision}")
        existing = f"{name}/revisions/{revision}"
        same = self.templates.get(existing, wanted.template) == wanted.template
        need(same, "a revision of this name has other content")
        going = existing in self.revisions and self.revisions[existing].delete_time
        need(not going, "a revision of this name is being deleted")
        need(sum(target.percent for target in wanted.traffic) == 100, "the percentages do not make 100")
        tags = [target.tag for target in wanted.traffic]
        need(len(set(tags)) == len(tags) and all(len(tag + last(name)) <= 46 for tag in tags), f"tags {tags}")
        for target in wanted.traffic:
            known = target.revision == revision or f"{name}/revisions/{target.revision}" in self.revisions
            need(known and target.type_ == 2, f"no revision {target.revision}")

    def _write(self, name: str, wanted: api.Service) -> operations_pb2.Operation:
        service, traffic = self.services[name], list(wanted.traffic)
        service.template, service.traffic = wanted.template, traffic
        service.etag, service.reconciling = f"{service.etag}+", True
        revision = f"{name}/revisions/{wanted.template.revision}"
        self.revisions.setdefault(revision, api.Revision(name=revision))
        self.templates.setdefault(revision, wanted.template)

        def effect() -> api.Service | str:
            service.reconciling = False
            if not self.fleet.starts(_model(wanted.template)):
                return "The user-provided container failed to start and listen on the port"
            service.traffic_statuses = [_status(service, target) for target in traffic]
            return service

        return self.operations.begin(PARENT, effect)

    def _delete(self, kind: dict[str, Any], request: Any) -> operations_pb2.Operation:
        resource = self._get(kind, request)
        need(request.etag in ("", resource.etag), "it has changed", ABORTED)
        used = {
            share.revision
            for service in self.services.values()
            for share in (service.template, *service.traffic, *service.traffic_statuses)
        }
        need(kind is self.services or last(request.name) not in used, f"revision {last(request.name)} is in use")
        need(not resource.delete_time, "it is being deleted")
        resource.delete_time = "2026-01-01T00:00:00Z"

        def effect() -> Any:
            for kind in (self.services, self.revisions, self.templates):
                for name in [name for name in kind if f"{name}/".startswith(f"{request.name}/")]:
                    del kind[name]
            return resource

        return self.operations.begin(PARENT, effect)

    def _list(self, request: api.ListRevisionsRequest) -> api.ListRevisionsResponse:
        page, following = paged(self.revisions, f"{request.parent}/revisions/", request.page_token)
        return api.ListRevisionsResponse(revisions=page, next_page_token=following)

    def _ask(self, url: str, audience: str, body: bytes) -> bytes:
        """Answer a request to a revision; an identity is for one service."""
        self.counted.count("invoke")
        name = next(name for name, service in self.services.items() if service.uri == audience)
        revision = next(
            status.revision for status in self.services[name].traffic_statuses if f"{status.uri}/score" == url
        )
        return self.fleet.answer(_model(self.templates[f"{name}/revisions/{revision}"]), body)


def _status(service: api.Service, target: api.TrafficTarget) -> dict[str, Any]:
    fields = {"type_": target.type_, "revision": target.revision, "percent": target.percent, "tag": target.tag}
    return fields | {"uri": service.uri.replace("https://", f"https://{target.tag}---")}


def _model(template: api.RevisionTemplate) -> str:
    """The model that a revision's containers serve."""
    args = list(template.containers[0].args)
    return args[args.index("--model") + 1]


@contextmanager
def platform(fleet: Fleet, _: Path) -> Iterator[Run]:
    """A project without anything in it."""
    run = Run(fleet)
    with google_server.served(run.methods, run.counted) as channel:
        run.clients = CloudRunClients(*google_server.clients(channel, *KINDS), ask=run._ask, polling=POLLING)
        yield run
