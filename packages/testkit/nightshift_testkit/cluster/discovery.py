"""The documents by which clients learn what a server has."""

from collections.abc import Iterable

from nightshift_testkit.cluster.kinds import Json, ResourceKind

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0", "platform": "linux/amd64", "goVersion": "go1.26"}
SUBRESOURCES = {"Pod": ("log", "eviction"), "ServiceAccount": ("token",)}


def document(path: str, kinds: Iterable[ResourceKind]) -> Json | None:
    """What lies at a path, if it is one of theirs."""
    roots = sorted({kind.root for kind in kinds})
    if path.rstrip("/") in ("/healthz", "/livez", "/readyz"):
        return {"status": "ok"}
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(kinds)}
    if path == "/openapi/v3":
        return {"paths": {root[1:]: {"serverRelativeURL": f"/openapi/v3{root}"} for root in roots}}
    if path.startswith("/openapi/v3/"):
        return _openapi(path.removeprefix("/openapi/v3"), kinds)
    return _resources(path, kinds) if path in roots else None


def _groups(kinds: Iterable[ResourceKind]) -> list[Json]:
    groups: dict[str, list[Json]] = {}
    for kind in kinds:
        version = {"groupVersion": kind.api_version, "version": kind.version}
        if kind.group and version not in groups.setdefault(kind.group, []):
            groups[kind.group].append(version)
    return [{"name": name, "versions": versions, "preferredVersion": versions[0]} for name, versions in groups.items()]


def _resources(root: str, kinds: Iterable[ResourceKind]) -> Json:
    resources = []
    for kind in kinds:
        if kind.root == root:
            parts = (*SUBRESOURCES.get(kind.name, ()), *(("status",) if kind.has_status else ()))
            resources.append(kind.described())
            resources += [kind.described() | {"name": f"{kind.plural}/{part}", "shortNames": []} for part in parts]
    version = root.removeprefix("/apis/").removeprefix("/api/")
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def _openapi(root: str, kinds: Iterable[ResourceKind]) -> Json:
    """As much as kubectl reads: that the server itself checks fields."""
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths = {}
    for kind in kinds:
        if kind.root == root:
            gvk = {"group": kind.group, "version": kind.version, "kind": kind.name}
            patch = {"parameters": [parameter], "x-kubernetes-group-version-kind": gvk, "responses": {}}
            paths[f"{root}/{kind.plural}/{{name}}"] = {"patch": patch}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.0"}, "paths": paths}
