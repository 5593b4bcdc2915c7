"""Volumes: their size, and their claims."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from infra.policies import quantities
from infra.policies.model import Environment, Json, Problem, Resource, label, policy, table
from infra.policies.workloads import containers


@policy("https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reserving-a-persistentvolume")
def a_volume_is_the_file_system(environment: Environment) -> Iterator[Problem]:
    """The volume has the capacity, handle, zone and region of the file system that Terraform makes."""
    for volume in environment.of_kind("PersistentVolume"):
        where, spec = label(volume), volume["spec"]
        for differences in (_of_fsx, _of_lustre, _of_filestore):
            for field, value, wanted in differences(environment, spec):
                yield Problem(where, field, value, f"the file system has {wanted}")


def _existing(environment: Environment, kind: str) -> list[Resource]:
    """Return file systems that are there: before, no volume can be theirs."""
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
def a_claim_and_its_volume_name_each_other(environment: Environment) -> Iterator[Problem]:
    """A static volume and its claim agree in name, class and access modes, and the claim asks for no more."""
    claims = {
        (claim["metadata"]["namespace"], claim["metadata"]["name"]): claim
        for claim in environment.of_kind("PersistentVolumeClaim")
    }
    for volume in environment.of_kind("PersistentVolume"):
        reference, spec = volume["spec"]["claimRef"], volume["spec"]
        claim = claims.get((reference["namespace"], reference["name"]))
        if claim is None:
            yield Problem(label(volume), "claimRef", reference, f"there are the claims {sorted(claims)}")
            continue
        request = claim["spec"]["resources"]["requests"]["storage"]
        if claim["spec"].get("volumeName") != volume["metadata"]["name"]:
            yield Problem(
                label(claim), "volumeName", claim["spec"].get("volumeName"), f"it is {volume['metadata']['name']}"
            )
        if quantities.size(request) > quantities.size(spec["capacity"]["storage"]):
            yield Problem(label(claim), "requests.storage", request, f"the volume has {spec['capacity']['storage']}")
        for field in ("accessModes", "storageClassName"):
            if claim["spec"].get(field) != spec.get(field):
                yield Problem(label(claim), field, claim["spec"].get(field), f"the volume has {spec.get(field)!r}")


@policy("https://prometheus.io/docs/prometheus/latest/storage/#operational-aspects")
def metrics_fit_on_their_disk(environment: Environment) -> Iterator[Problem]:
    """The disk holds what the retention keeps: Prometheus stops when it is full."""
    prometheus = environment.values.get("kube-prometheus-stack", {}).get("prometheus", {}).get("prometheusSpec", {})
    retention = prometheus.get("retention")
    claim = prometheus.get("storageSpec", {}).get("volumeClaimTemplate", {}).get("spec", {})
    where = "infra/cluster/values/kube-prometheus-stack.yaml"
    if not retention or not claim:
        yield Problem(where, "prometheusSpec.storageSpec", claim, "without a claim metrics are lost with the pod")
        return
    size, a_day = claim["resources"]["requests"]["storage"], table("kubernetes")["metrics_a_day"]
    needed = quantities.duration(retention) / 86400 * quantities.size(a_day)
    if quantities.size(size) < needed:
        allowed = (
            f"retention {retention} at {a_day} a day takes {needed / 2**30:.0f}Gi: a larger disk or a shorter retention"
        )
        yield Problem(where, "prometheusSpec.storageSpec.storage", size, allowed)


@policy("https://hub.docker.com/_/postgres")
def databases_lie_on_their_volume(environment: Environment) -> Iterator[Problem]:
    """PGDATA is a folder below the mount, whose root holds lost+found."""
    for where, container in containers(environment):
        mounts = [PurePosixPath(mount["mountPath"]) for mount in container.get("volumeMounts", [])]
        for path in (entry["value"] for entry in container.get("env", []) if entry["name"] == "PGDATA"):
            if not any(mount in PurePosixPath(path).parents for mount in mounts):
                yield Problem(where, "PGDATA", path, f"it lies below {', '.join(map(str, mounts))}")


@policy("infra/kubernetes/base/lustre.yaml")
def everything_mounts_claims_that_are_there(environment: Environment) -> Iterator[Problem]:
    """A pod that mounts a missing claim waits forever."""
    names = {claim["metadata"]["name"] for claim in environment.of_kind("PersistentVolumeClaim")}
    for value in environment.objects:
        for name in re.findall(r"'persistentVolumeClaim': \{'claimName': '([^']+)'", str(value)):
            if name not in names:
                yield Problem(label(value), "persistentVolumeClaim.claimName", name, f"there are {sorted(names)}")
