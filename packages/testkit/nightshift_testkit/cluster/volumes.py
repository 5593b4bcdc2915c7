"""A pod's volumes as folders of this machine, and its environment."""

import base64
import os
import re
import shutil
from pathlib import Path

from nightshift_testkit.cluster import quantities
from nightshift_testkit.cluster.kinds import CLAIM, CONFIG_MAP, SECRET, Json, ResourceKind
from nightshift_testkit.cluster.store import ResourceStore

REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
GROUP = 0o2070  # its group may do everything, and what is made in it is the group's
OPEN = 0o777  # what a container's user, whoever it is, may write to


class ConfigError(Exception):
    """Something that a container refers to is not there."""


def folders(store: ResourceStore, pod: Json, root: Path, claims: Path) -> dict[str, Path]:
    """Make a pod's volumes.

    Raises:
        ConfigError: when one's source is not there.
    """
    folders = {}
    for volume in pod["spec"].get("volumes", []):
        folder = root / "volumes" / volume["name"]
        folders[volume["name"]] = _folder(store, pod, volume, folder, claims)
    return folders


def _folder(store: ResourceStore, pod: Json, volume: Json, folder: Path, claims: Path) -> Path:
    """Make a volume; a node's own files are an empty folder, as this machine's are none of a test's."""
    namespace = pod["metadata"]["namespace"]
    if claim := volume.get("persistentVolumeClaim"):
        folder = claims / namespace / claim["claimName"]
    folder.mkdir(parents=True, exist_ok=True)
    # the root of a new file system is root's, as far as there is one here
    if "emptyDir" in volume or (claim and os.getuid()):
        folder.chmod(OPEN)
    sources = volume["projected"]["sources"] if "projected" in volume else [volume]
    for source in sources:
        _fill(store, pod, source, folder)
    return folder


def _fill(store: ResourceStore, pod: Json, source: Json, folder: Path) -> None:
    for key, kind in (("secret", SECRET), ("configMap", CONFIG_MAP)):
        if key in source:
            wanted = source[key]
            name = wanted.get("secretName") or wanted["name"]
            values = data(store, kind, name, pod["metadata"]["namespace"], bool(wanted.get("optional")))
            paths = {item["key"]: item["path"] for item in wanted.get("items", [])} or {name: name for name in values}
            for key_, path in paths.items():
                if key_ not in values:
                    raise ConfigError(f"references non-existent {key} key: {key_}")
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(values[key_])
    if wanted := source.get("serviceAccountToken"):
        (folder / wanted["path"]).write_text(f"{pod['spec']['serviceAccountName']} for {wanted['audience']}")
    for item in source.get("downwardAPI", {}).get("items", []):
        (folder / item["path"]).write_text(_field(pod, item["fieldRef"]["fieldPath"]))


def data(
    store: ResourceStore, kind: ResourceKind, name: str, namespace: str, optional: bool = False
) -> dict[str, bytes]:
    """What a secret or a config map holds.

    Raises:
        ConfigError: when it is not there, and has to be.
    """
    value = store.peek(kind, name, namespace)
    if value is None and not optional:
        raise ConfigError(f'{kind.name.lower()} "{name}" not found')
    value = value or {}
    plain = value.get("data", {}) if kind == CONFIG_MAP else value.get("stringData", {})
    content = {key: text.encode() for key, text in plain.items()}
    encoded = value.get("data", {}) if kind == SECRET else value.get("binaryData", {})
    return content | {key: base64.b64decode(text) for key, text in encoded.items()}


def environment(store: ResourceStore, pod: Json, container: Json) -> dict[str, str]:
    """A container's environment.

    Raises:
        ConfigError: when something that it refers to is not there.
    """
    namespace = pod["metadata"]["namespace"]
    variables = {"HOSTNAME": pod["metadata"]["name"]}
    for source in container.get("envFrom", []):
        for key, kind in (("secretRef", SECRET), ("configMapRef", CONFIG_MAP)):
            if key in source:
                values = data(store, kind, source[key]["name"], namespace, bool(source[key].get("optional")))
                variables |= {source.get("prefix", "") + name: value.decode() for name, value in values.items()}
    for item in container.get("env", []):
        value = _value(store, pod, container, item)
        if value is not None:
            variables[item["name"]] = expanded(value, variables)
    return variables


def _value(store: ResourceStore, pod: Json, container: Json, item: Json) -> str | None:
    source = item.get("valueFrom")
    if source is None:
        return str(item.get("value", ""))
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        part, _, name = source["resourceFieldRef"]["resource"].partition(".")
        return str(int(quantities.number(container.get("resources", {}).get(part, {}).get(name, 0))))
    key, kind = ("secretKeyRef", SECRET) if "secretKeyRef" in source else ("configMapKeyRef", CONFIG_MAP)
    wanted, namespace = source[key], pod["metadata"]["namespace"]
    values = data(store, kind, wanted["name"], namespace, bool(wanted.get("optional")))
    if wanted["key"] not in values and not wanted.get("optional"):
        raise ConfigError(f"couldn't find key {wanted['key']} in {kind.name} {namespace}/{wanted['name']}")
    return values[wanted["key"]].decode() if wanted["key"] in values else None


def _field(pod: Json, path: str) -> str:
    match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if match:
        return str(pod["metadata"].get(match[1], {}).get(match[2], ""))
    if path in ("status.podIP", "status.hostIP"):
        return "127.0.0.1"
    nested = pod
    for name in path.split("."):
        nested = nested.get(name, "")
    return str(nested)


def expanded(text: str, values: dict[str, str]) -> str:
    """Replace $(NAME) by what it stands for; one that stands for nothing stays."""

    def value(match: "re.Match[str]") -> str:
        return "$" if match[1] == "$" else values.get(match[2], match[0])

    return REFERENCE.sub(value, text)


def give(store: ResourceStore, pod: Json, volume: Json, folder: Path) -> None:
    """Give a volume that pods may write to to the group that the pod's fsGroup names, where this is root's process."""
    group, claim = pod["spec"].get("securityContext", {}).get("fsGroup"), volume.get("persistentVolumeClaim")
    if group is None or os.getuid() or not (claim or "emptyDir" in volume):
        return
    modes = store.get(CLAIM, claim["claimName"], pod["metadata"]["namespace"])["spec"]["accessModes"] if claim else []
    # drivers leave what many nodes mount as it is
    if "ReadWriteMany" not in modes:
        shutil.chown(folder, group=group)
        folder.chmod(folder.stat().st_mode | GROUP)
