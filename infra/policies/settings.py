"""Texts that programs read: image tags, environment variables, schedules, words of a shell."""

import calendar
import itertools
import re
import shlex
import zoneinfo
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from infra.policies import quantities
from infra.policies.model import Environment, Json, Problem, blocks, label, leaves, one_of, policy
from infra.terraform import INFRA
from nightshift.runtime import strict_yaml

_MOVING = {"", *["latest", "main", "master", "head", "edge", "nightly", "dev", "devel", "develop", "stable", "rolling"]}
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")
_CHOICES = {
    "NCCL_DEBUG": ("VERSION", "WARN", "INFO", "ABORT", "TRACE"),
    "NCCL_IB_DISABLE": ("0",),
    "NCCL_P2P_DISABLE": ("0",),
    "NCCL_SHM_DISABLE": ("0",),
    "NCCL_NVLS_ENABLE": ("0", "1", "2"),
    "FI_PROVIDER": ("efa",),
    "FI_EFA_USE_DEVICE_RDMA": ("0", "1"),
    "TORCH_DISTRIBUTED_DEBUG": ("OFF", "INFO", "DETAIL"),
    "PYTHONUNBUFFERED": ("1",),
}
_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = {name.lower() for name in (*calendar.month_abbr, *calendar.day_abbr) if name}
_ZONE_FIELDS = ("timeZone", "timezone", "default_timezone")
_SIZED = re.compile(r"--?[\w.-]*(?:memory|mem|cache-size|buffer|heap|retention\.size)[\w.-]*")
_ZONES = zoneinfo.available_timezones() | {"utc"}


@policy("https://kubernetes.io/docs/concepts/containers/images/#image-names")
def images_and_charts_have_fixed_versions(environment: Environment) -> Iterator[Problem]:
    """A tag that moves runs what nobody tried, on some nodes earlier than on others."""
    for where, path, image in _images(environment):
        name, _, digest = image.partition("@")
        tag = name.rpartition("/")[2].partition(":")[2]
        if not digest and (tag.lower() in _MOVING or tag.startswith("latest")):
            yield Problem(where, path, image, "must have a version or a digest")
    for chart in strict_yaml.load_document((environment.infra / "cluster" / "charts.yaml").read_text()):
        where, version = f"infra/cluster/charts.yaml {chart['name']}", str(chart.get("version") or "0")
        if not re.fullmatch(r"v?\d[\w.+-]*", version):
            yield Problem(where, "version", version, "must be one version: a range moves")
        for source in (str(folder) for folder in chart.get("kustomize") or ()):
            reference = source.partition("?ref=")[2].lstrip("v")
            if source.startswith(("github.com", "https://")) and reference != version.lstrip("v"):
                yield Problem(where, "kustomize", source, f"must have ?ref= with the version of its row, {version}")


def _images(environment: Environment) -> Iterator[tuple[str, str, str]]:
    """Yield the images of containers and of charts' values, with their object or file and field."""
    for value in environment.objects:
        for path, leaf in leaves(value):
            if path[-1] == "image" and str(leaf).strip():
                yield label(value), ".".join(path), str(leaf)
    for where, values in environment.values_files:
        for field, block in blocks(values):
            if "tag" in block:
                yield where, f"{field}.tag", f"{block.get('repository', 'image')}:{block['tag']}"
            elif isinstance(block.get("image"), str) and ":" in block["image"]:
                yield where, f"{field}.image", block["image"]


@policy("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html")
def variables_have_known_names_and_values(environment: Environment) -> Iterator[Problem]:
    """A misspelled variable is ignored, and an interface that a pod lacks keeps processes from finding each other."""
    for where, entries, spec in variables(environment):
        names = [entry["name"] for entry in entries]
        for name in {name for name in names if names.count(name) > 1}:
            yield Problem(where, f"env.{name}", names.count(name), "must be set once: the last one counts")
        for name in {name for name in names if name.startswith("NIGHTSHIFT_")} - _read_names():
            yield Problem(where, "env.name", name, "no program of this project reads this variable")
        for name, value in ((entry["name"], str(entry["value"])) for entry in entries if "value" in entry):
            if allowed := _expected(name, value, bool(spec.get("hostNetwork"))):
                yield Problem(where, f"env.{name}", value, allowed)


def _expected(name: str, value: str, is_on_host: bool) -> str:
    """Return what a variable must be; an empty text where it is that, or nothing is known of it."""
    if name in _CHOICES and value not in _CHOICES[name]:
        return one_of(_CHOICES[name])
    if name in _INTERFACES and not is_on_host and not _is_of_a_pod(name, value):
        return "must be eth0, the interface of a pod"
    is_zone = name in ("TZ", "AIRFLOW__CORE__DEFAULT_TIMEZONE")
    return "must be a time zone such as Europe/Berlin" if is_zone and value not in _ZONES else ""


def _is_of_a_pod(name: str, value: str) -> bool:
    """Say whether a pod has an interface; NCCL takes prefixes, =exact names and ^exceptions."""
    if name.startswith("NCCL") and value.startswith("^"):
        return "eth" not in value
    exact = value.removeprefix("=") if name.startswith("NCCL") else value
    return any(part == "eth0" or (name.startswith("NCCL") and part == "eth") for part in exact.split(","))


def variables(environment: Environment) -> Iterator[tuple[str, list[Json], Json]]:
    """Yield the environment variables of containers and of charts' values, with the pod's spec."""
    for value in environment.objects:
        for _, spec in blocks(value):
            for part in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
                if isinstance(part, dict) and part.get("env"):
                    yield f"{label(value)} {part.get('name', '')}", part["env"], spec
    for where, values in environment.values_files:
        for _, block in blocks(values):
            if isinstance(block.get("env"), list):
                yield where, block["env"], block


@cache
def _read_names() -> frozenset[str]:
    """Return the variables of this project that its programs read."""
    folders = [
        INFRA.parent / name for name in ("components", "nightshift", "pipelines", "packages", "containers", "dags")
    ]
    texts = (path.read_text(errors="ignore") for folder in folders for path in folder.rglob("*") if _is_source(path))
    return frozenset(name for text in texts for name in re.findall(r"NIGHTSHIFT_[A-Z0-9_]+", text))


def _is_source(path: Path) -> bool:
    return path.suffix in (".py", ".sh") or path.name == "Dockerfile"


@policy("https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#schedule-syntax")
def schedules_are_possible_and_in_a_known_zone(environment: Environment) -> Iterator[Problem]:
    """A schedule that never comes, or of an unknown time zone, runs nothing."""
    contents = [(label(value), value) for value in environment.objects if value["kind"] != "ConfigMap"]
    contents += environment.values_files
    for where, path, block in ((where, *block) for where, content in contents for block in blocks(content)):
        for zone in (str(block[name]) for name in _ZONE_FIELDS if block.get(name)):
            if zone not in _ZONES:
                yield Problem(where, f"{path} (time zone)", zone, "must be a time zone such as Europe/Berlin")
        for field in ("schedule", "start", "end") if block.keys() & {*_ZONE_FIELDS} else ("schedule",):
            schedule = block.get(field)
            if isinstance(schedule, str) and not schedule.startswith("@") and not _is_possible(schedule):
                allowed = "must be minute, hour, day, month and weekday of a day that comes"
                yield Problem(where, f"{path}.{field}", schedule, allowed)
    for job in environment.of_kind("CronJob"):
        if (deadline := job["spec"].get("startingDeadlineSeconds")) is not None and deadline < 10:
            allowed = "must be at least 10: Kubernetes looks every ten seconds"
            yield Problem(label(job), "startingDeadlineSeconds", deadline, allowed)


def _is_possible(schedule: str) -> bool:
    fields = schedule.lower().split()
    is_read = len(fields) == len(_FIELDS) and all(map(_is_field, fields, _FIELDS))
    never = {("30", "2"), ("31", "2"), ("31", "4"), ("31", "6"), ("31", "9"), ("31", "11")}
    return is_read and tuple(fields[2:4]) not in never


def _is_field(field: str, bounds: tuple[int, int]) -> bool:
    """Say whether a field has names, and numbers and steps within its bounds only."""
    step = re.findall(r"/(\d+)", field)
    numbers = [int(text) for text in re.findall(r"(?<!/)\b\d+", field)]
    names = {*re.findall(r"[a-z]+", field)}
    within = all(bounds[0] <= number <= bounds[1] for number in numbers) and all(int(count) for count in step)
    return bool(re.fullmatch(r"[\w*,/?-]+", field)) and within and names <= _NAMES


@policy("https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/")
def words_of_commands_fit_their_pod(environment: Environment) -> Iterator[Problem]:
    """A size beyond the pod's memory, or a wait beyond the pod's end, does not do what it says."""
    for value in environment.objects:
        for path, spec in blocks(value, "spec"):
            for part in spec.get("containers") or ():
                if isinstance(part, dict):
                    for field, word, allowed in _misfits(spec, part):
                        yield Problem(f"{label(value)} {part.get('name', '')}", f"{path}.{field}", word, allowed)


def _misfits(spec: Json, part: Json) -> Iterator[tuple[str, object, str]]:
    """Yield field, word and expected value of sizes and times that a container's pod does not have."""
    limit, deadline = part.get("resources", {}).get("limits", {}).get("memory"), spec.get("activeDeadlineSeconds")
    words = _words([*(part.get("command") or ()), *(part.get("args") or ())])
    for flag, word in itertools.pairwise([*words, ""]):
        name, _, inner = flag.partition("=")
        size = re.fullmatch(r"(\d+(?:\.\d+)?[KMGT]i?)B?", inner or word)
        if limit and size and _SIZED.fullmatch(name) and quantities.size(size[1]) > quantities.size(limit):
            yield f"args {name}", size[0], f"must be at most the memory limit, {limit}"
        time = re.fullmatch(r"(\d+)([smhd]?)", word) if flag == "timeout" else None
        if deadline and time and quantities.duration(f"{time[1]}{time[2] or 's'}") > deadline:
            yield "args timeout", word, f"must be less than activeDeadlineSeconds, {deadline}"
    grace, stop = spec.get("terminationGracePeriodSeconds", 30), part.get("lifecycle", {}).get("preStop", {})
    slept = re.findall(r"sleep\s+(\d+)([smh]?)", " ".join(stop.get("exec", {}).get("command", [])))
    waits = [quantities.duration(f"{count}{unit or 's'}") for count, unit in slept]
    for wait in [*waits, float(stop.get("sleep", {}).get("seconds", 0))]:
        if wait and wait >= grace:
            yield "lifecycle.preStop", f"{wait:g} s", f"must be less than terminationGracePeriodSeconds, {grace}"


def _words(texts: list[Any]) -> list[str]:
    """Return the words of a command, those within a script included."""
    words = []
    for text in map(str, texts):
        try:
            words += shlex.split(text) if " " in text else [text]
        except ValueError:
            words.append(text)
    return words


@policy("https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/resource/")
def manifests_are_listed(environment: Environment) -> Iterator[Problem]:
    """A manifest that no kustomization lists is never applied."""
    infra = environment.infra.resolve()
    listed = {
        (file.parent / str(name)).resolve()
        for file in infra.rglob("kustomization.yaml")
        for _, name in leaves(strict_yaml.load_document(file.read_text()))
        if str(name).endswith(".yaml")
    }
    for folder in {path.parent for path in listed if path.is_file()}:
        for file in {*folder.glob("*.yaml")} - listed - {folder / "kustomization.yaml"}:
            if re.search(r"^kind: ", file.read_text(), re.MULTILINE):
                where, allowed = str(file.relative_to(infra.parent)), "must be among the resources of a kustomization"
                yield Problem(where, "file", file.name, allowed)


@policy("infra/cluster/charts.yaml")
def single_values_meet_their_entry(environment: Environment) -> Iterator[Problem]:
    """A value that is set by its place in a list goes to another entry once one comes before it."""
    for chart in strict_yaml.load_document((environment.infra / "cluster" / "charts.yaml").read_text()):
        for path in chart.get("set") or ():
            if indexed := re.fullmatch(r"(\w+)\[(\d+)\]\.(\w+)", path):
                entries = dict(enumerate(environment.values[chart["name"]].get(indexed[1], [])))
                entry = entries.get(int(indexed[2]))
                if entry is None or indexed[3] in entry:
                    where = f"infra/cluster/values/{chart['name']}.yaml"
                    yield Problem(where, path.rpartition(".")[0], entry, "must be the entry that charts.yaml sets")
