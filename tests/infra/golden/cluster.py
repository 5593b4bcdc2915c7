"""What a cluster is given, as facts: objects as kustomize renders them, charts with their values."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from infra.cluster import core
from infra.terraform import INFRA
from tests.infra import kustomize
from tests.infra import rendered as rendered_environments
from tests.infra.golden.facts import Fact, differences

PRICES = Path("costs", "prices.yaml")
# where a name was looked up is no part of what is installed
_SOURCES = ("date", "source")


def kustomizations(infra: Path) -> list[Path]:
    """Return the folders that are applied and all here: those of a kustomization that is no part of another."""
    folders = sorted(path.parent for path in infra.rglob("kustomization.yaml") if _is_here(path.parent))
    parts = {(folder / name).resolve() for folder in folders for name in _read(folder).get("resources", [])}
    return [folder for folder in folders if folder.resolve() not in parts]


def environment(folder: Path) -> str:
    """Return the environment that a kustomization is of, `dev` of `aws-dev` over `aws`; empty of one for all."""
    base, _, name = folder.name.rpartition("-")
    return name if _read(folder).get("resources") == [f"../{base}"] else ""


def parts(folder: Path) -> list[Path]:
    """Return the folders that a kustomization is put together from, its own first."""
    named = [folder / name for name in _read(folder).get("resources", [])]
    return [folder.resolve(), *(part for path in named if path.is_dir() for part in parts(path))]


def _is_here(folder: Path) -> bool:
    return all((folder / name).exists() for name in _read(folder).get("resources", []))


def _read(folder: Path) -> Mapping[str, Any]:
    kustomization: Mapping[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return kustomization


def rendered(folder: Path) -> list[Fact]:
    """Return a kustomization's objects, those of one name in several namespaces together, and a component's changes.

    Raises:
        subprocess.CalledProcessError: when kustomize refuses it.
    """
    objects = kustomize.built(folder)
    names = Counter(_name(value) for value in objects)
    sources = _sources(folder)
    rendered = (_fact(value, several=names[_name(value)] > 1) for value in objects)
    written = (sources.get(_name(value), []) for value in objects)
    return [*map(_unlike_source, rendered, written), *_changes(folder)]


def _sources(folder: Path) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """Return the paths and the objects that are written in a kustomization's folders, by the objects' names."""
    sources: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for part in {*parts(folder)}:
        names = [name for name in _read(part).get("resources", []) if (part / name).is_file()]
        for path in sorted((part / name).resolve() for name in names):
            for value in filter(None, yaml.safe_load_all(path.read_text())):
                sources.setdefault(_name(value), []).append((_short(path), value))
        for generated in _read(part).get("configMapGenerator", []):
            data = {Path(name).name: (part / name).read_text() for name in generated.get("files", [])}
            value = {"kind": "ConfigMap", "metadata": {"name": generated["name"]}, "data": data}
            sources.setdefault(_name(value), []).append((_short(part / "kustomization.yaml"), value))
    return sources


def _short(path: Path) -> str:
    return "/".join(path.resolve().parts[-2:])


def _unlike_source(fact: Fact, sources: Sequence[tuple[str, Mapping[str, Any]]]) -> Fact:
    """Return what kustomize changed of an object that is written once, with a digest of what is written."""
    if len(sources) != 1:
        return fact
    ((file, value),) = sources
    source = Fact(fact.name, fact.key, _content(value))
    digest = hashlib.sha256(json.dumps(source.value, sort_keys=True).encode()).hexdigest()[:8]
    changes = [change.value for change in differences([fact], [source])]
    return Fact(fact.name, fact.key, {"as in": f"{file} {digest}"} | (dict(changes[0]) if changes else {}))


def _changes(folder: Path) -> Iterator[Fact]:
    """Yield what a component changes of objects that are not its own."""
    content = _read(folder)
    for patch in content.get("patches", []) if content["kind"] == "Component" else []:
        changes = yaml.safe_load((folder / patch["path"]).read_text())
        yield Fact(f"patch {patch['path']} of {patch['target']['kind']}", "", {item["path"]: item for item in changes})


def _name(value: Mapping[str, Any]) -> str:
    return f"{value['kind']} {value['metadata']['name']}"


def _fact(value: Mapping[str, Any], *, several: bool) -> Fact:
    namespace = value["metadata"].get("namespace", "")
    if several:
        return Fact(f"{_name(value)} in *", namespace, _content(value))
    return Fact(_name(value) + (f" in {namespace}" if namespace else ""), "", _content(value))


def _content(value: Mapping[str, Any]) -> dict[str, Any]:
    labels = {key: entry for key, entry in value["metadata"].items() if key not in ("name", "namespace")}
    return {key: entry for key, entry in value.items() if key not in ("kind", "metadata")} | labels


def charts(infra: Path) -> Iterator[Fact]:
    """Return the charts with what they are given, and the commands in their order."""
    rows = yaml.safe_load((infra / "cluster" / "charts.yaml").read_text())
    for row in rows:
        facts = {key: value for key, value in row.items() if key not in (*_SOURCES, "name")}
        values = infra / "cluster" / "values" / f"{row['name']}.yaml"
        if values.exists():
            facts["values"] = yaml.safe_load(values.read_text())
        for path in row.get("kustomize", []):
            if (infra.parent / path).is_dir():
                facts[f"kustomization {path}"] = _read(infra.parent / path)
        for path in row.get("files", {}).values():
            facts[f"file {path}"] = (infra.parent / path).read_text()
        yield Fact(f"chart {row['name']}", "", facts)
    for cloud in ("aws", "gcp"):
        commands = {"install": core.install(rows, cloud, "nightshift-dev"), "uninstall": core.uninstall(rows, cloud)}
        yield Fact(f"commands on {cloud}", "", commands)


def environments() -> Iterator[Fact]:
    """Return what is rendered of the shipped environments, and the commands that bring them up and down."""
    for name in rendered_environments.NAMES:
        answers, folder = rendered_environments.read(name), rendered_environments.overlays(name)
        for path in sorted(folder.rglob("kustomization.yaml")):
            content = _read(path.parent)
            parts = {
                key: [str((path.parent / part).resolve().relative_to(INFRA)) for part in content[key]]
                for key in ("resources", "components")
                if key in content
            }
            yield Fact(f"overlay {path.relative_to(folder).parent} of {name}", "", {**content, **parts})
        if name.endswith("-dev"):
            yield Fact(f"commands for {name}", "", rendered_environments.commands(answers))


def prices(infra: Path) -> Iterator[Fact]:
    """Return what things cost, and what is left out of an estimate."""
    for cloud, table in yaml.safe_load((infra / PRICES).read_text()).items():
        for group, value in table.items():
            yield Fact(f"{cloud} {group}", "", value if isinstance(value, dict) else {"is": value})
