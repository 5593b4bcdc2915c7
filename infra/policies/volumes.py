"""Volumes: size, file system and claims."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from infra.policies import quantities
from infra.policies.model import Environment, Json, Problem, Resource, label, one_of, policy, table
from infra.policies.workloads import containers


@policy("https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reserving-a-persistentvolume")
def volumes_match_their_file_system(environment: Environment) -> Iterator[Problem]:
    """A volume with another handle or zone than the file system that Terraform creates cannot be mounted."""
    for volume in environment.of_kind("PersistentVolume"):
        where, spec = label(volume), volume["spec"]
        for differences in (_of_fsx, _of_lustre, _of_filestore):
            for field, value, expected in differences(environment, spec):
                yield Problem(where, field, value, f"must be {expected}, as in the file system")


def _existing(environment: Environment, kind: str) -> list[Resource]:
    """Return the file systems that were created: none before an apply."""
    return [system for system in environment.of_type(kind) if system.values.get("id")]


def _of_fsx(environment: Environment, spec: Json) -> Iterator[tuple[str, object, str]]:
    size, csi = spec["capacity"]["storage"], spec["csi"]
    for system in _existing(environment, "aws_fsx_lustre_file_system"):
        if size != f"{system.values['storage_capacity']}Gi":
            yield "capacity.storage", size, f"{system.values['storage_capacity']}Gi"
        for field, value, name in (
            ("volumeHandle", csi["volumeHandle"], "id"),
            ("volumeAttributes.dnsname", csi["volumeAttributes"]["dnsname"], "dns_name"),
            ("volumeAttributes.mountname", csi["volumeAttributes"]["mountname"], "mount_name"),
        ):
            if system.values.get(name) not in (None, value):
                yield f"csi.{field}", value, system.values[name]


def _of_lustre(environment: Environment, spec: Json) -> Iterator[tuple[str, object, str]]:
    size, csi = spec["capacity"]["storage"], spec["csi"]
    for system in _existing(environment, "google_lustre_instance"):
        handle = "/".join(str(system.values[name]) for name in ("project", "location", "instance_id"))
        if size != f"{system.values['capacity_gib']}Gi":
            yield "capacity.storage", size, f"{system.values['capacity_gib']}Gi"
        if csi["volumeHandle"] != handle:
            yield "csi.volumeHandle", csi["volumeHandle"], handle
        if csi["volumeAttributes"].get("filesystem") != system.values["filesystem"]:
            yield "csi.volumeAttributes.filesystem", csi["volumeAttributes"], system.values["filesystem"]


def _of_filestore(environment: Environment, spec: Json) -> Iterator[tuple[str, object, str]]:
    size, csi = spec["capacity"]["storage"], spec["csi"]
    for system in _existing(environment, "google_filestore_instance"):
        (share,) = system.values["file_shares"]
        handle = f"modeInstance/{system.values['location']}/{system.values['name']}/{share['name']}"
        if size != f"{share['capacity_gb']}Gi":
            yield "capacity.storage", size, f"{share['capacity_gb']}Gi"
        if csi["volumeHandle"] != handle:
            yield "csi.volumeHandle", csi["volumeHandle"], handle


@policy("https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reserving-a-persistentvolume")
def claims_match_their_volumes(environment: Environment) -> Iterator[Problem]:
    """A claim stays pending unless it agrees with its volume in name, class and access modes, and fits in it."""
    claims = {
        (claim["metadata"]["namespace"], claim["metadata"]["name"]): claim
        for claim in environment.of_kind("PersistentVolumeClaim")
    }
    for volume in environment.of_kind("PersistentVolume"):
        reference, spec = volume["spec"]["claimRef"], volume["spec"]
        claim = claims.get((reference["namespace"], reference["name"]))
        if claim is None:
            yield Problem(
                label(volume),
                "claimRef",
                reference,
                f"no claim has this name: {one_of('/'.join(name) for name in claims)}",
            )
            continue
        request = claim["spec"]["resources"]["requests"]["storage"]
        if claim["spec"].get("volumeName") != volume["metadata"]["name"]:
            allowed = f"must be {volume['metadata']['name']}, which reserves this claim"
            yield Problem(label(claim), "volumeName", claim["spec"].get("volumeName"), allowed)
        if quantities.size(request) > quantities.size(spec["capacity"]["storage"]):
            yield Problem(label(claim), "requests.storage", request, f"must be at most {spec['capacity']['storage']}")
        for field in ("accessModes", "storageClassName"):
            if claim["spec"].get(field) != spec.get(field):
                yield Problem(
                    label(claim), field, claim["spec"].get(field), f"must be {spec.get(field)!r}, as in the volume"
                )


@policy("https://prometheus.io/docs/prometheus/latest/storage/#operational-aspects")
def metrics_fit_on_their_disk(environment: Environment) -> Iterator[Problem]:
    """Prometheus stops when its disk is full, before the retention deletes anything."""
    prometheus = environment.values.get("kube-prometheus-stack", {}).get("prometheus", {}).get("prometheusSpec", {})
    retention = prometheus.get("retention")
    claim = prometheus.get("storageSpec", {}).get("volumeClaimTemplate", {}).get("spec", {})
    where = "infra/cluster/values/kube-prometheus-stack.yaml"
    if not retention or not claim:
        yield Problem(
            where,
            "prometheusSpec.storageSpec",
            claim,
            "without a claim metrics are lost with the pod",
        )
        return
    size, a_day = claim["resources"]["requests"]["storage"], table("kubernetes")["metrics_a_day"]
    needed = quantities.duration(retention) / 86400 * quantities.size(a_day)
    if quantities.size(size) < needed:
        allowed = f"must be at least {needed / 2**30:.0f}Gi: retention is {retention}, at {a_day} a day"
        yield Problem(where, "prometheusSpec.storageSpec.storage", size, allowed)


@policy("https://hub.docker.com/_/postgres")
def databases_are_stored_on_their_volume(environment: Environment) -> Iterator[Problem]:
    """PGDATA outside the mount is lost with the pod, and at its root initdb refuses the folder lost+found."""
    for where, container in containers(environment):
        mounts = [PurePosixPath(mount["mountPath"]) for mount in container.get("volumeMounts", [])]
        for path in (entry["value"] for entry in container.get("env", []) if entry["name"] == "PGDATA"):
            if not any(mount in PurePosixPath(path).parents for mount in mounts):
                yield Problem(where, "PGDATA", path, f"must be a folder below {', '.join(map(str, mounts))}")


@policy("infra/kubernetes/base/lustre.yaml")
def pods_mount_existing_claims(environment: Environment) -> Iterator[Problem]:
    """A pod that mounts a missing claim waits forever."""
    names = {claim["metadata"]["name"] for claim in environment.of_kind("PersistentVolumeClaim")}
    for value in environment.objects:
        for name in re.findall(r"'persistentVolumeClaim': \{'claimName': '([^']+)'", str(value)):
            if name not in names:
                yield Problem(label(value), "persistentVolumeClaim.claimName", name, one_of(names))
