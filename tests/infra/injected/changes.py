"""Every way to drop or change one thing in the files of `infra/`."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.infra import hcl
from tests.infra.checks import EXAMPLES
from tests.infra.golden import cluster
from tests.infra.injected.faults import Fault

_OPPOSITES = {"==": "!=", "!=": "==", "&&": "||", "||": "&&", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
# Terraform's tests, the tables of policies, and the answers, whose examples are read in tests/infra/test_cloud.py
_UNCHANGED = ("tests", "policies", "answers")
_TERRAFORM, _DATA = {".tf", ".tfvars"}, {".yaml", ".json"}


def find_changes(infra: Path) -> list[Fault]:
    """Return every change of the files that describe infrastructure, in an order that only the files decide."""
    faults = []
    for path in sorted(infra.rglob("*")):
        hidden = any(part in _UNCHANGED or part.startswith(".") for part in path.relative_to(infra).parts)
        if path.suffix in _TERRAFORM | _DATA and not hidden and _is_shipped(path):
            edit = _of_terraform if path.suffix in _TERRAFORM else _of_data
            faults += [Fault(str(path.relative_to(infra)), change, text) for change, text in edit(path)]
    return faults


def _is_shipped(path: Path) -> bool:
    """Say whether a file is no user's own environment, which has no golden page."""
    if path.suffix == ".tfvars":
        return path.stem in EXAMPLES
    return path.name != "kustomization.yaml" or cluster.environment(path.parent) in ("", *EXAMPLES)


def _of_terraform(path: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    text = path.read_text()
    for part in hcl.parts(text):
        before = text[part.start : part.end]
        line = f"{text.count(chr(10), 0, part.start) + 1}:{part.start - text.rfind(chr(10), 0, part.start)}"
        if after := _changed(part.kind, before):
            yield f"{line} {part.address}: {_short(before)} -> {_short(after)}", _spliced(text, part, after)
        elif part.kind in ("argument", "block", "element"):
            yield f"{line} {part.address}: without {part.kind} {_short(before)}", _spliced(text, part, "")


def _spliced(text: str, part: hcl.Part, after: str) -> Callable[[], str]:
    return lambda: text[: part.start] + after + text[part.end :]


def _changed(kind: str, before: str) -> str:
    if kind == "bool":
        return "false" if before == "true" else "true"
    if kind == "number":
        return str(float(before) + 1) if "." in before else str(int(before) + 1)
    if kind == "string":
        return f'{before[:-1]}x"'
    return _OPPOSITES.get(before, "")


def _short(text: str) -> str:
    one_line = re.sub(r"\s+", " ", text)
    return one_line if len(one_line) <= 60 else f"{one_line[:57]}..."


def _of_data(path: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    read = _documents(path)
    for keys, value in _walk(read, ()):
        name = ".".join(map(str, keys))
        if len(keys) > 1:
            yield f"without {name}", _edited(path, read, keys)
        if not isinstance(value, dict | list):
            after = _other(value)
            yield f"{name}: {_short(str(value))} -> {_short(str(after))}", _edited(path, read, keys, after)


def _documents(path: Path) -> list[Any]:
    return [json.loads(path.read_text())] if path.suffix == ".json" else list(yaml.safe_load_all(path.read_text()))


def _walk(value: Any, keys: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if keys:
        yield keys, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, nested in pairs:
        yield from _walk(nested, (*keys, key))


def _other(value: Any) -> Any:
    """Return another value of the same kind: a number in a text is one more, any other text one letter longer."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    text = "" if value is None else str(value)
    changed = re.sub(r"\d+", lambda digits: str(int(digits[0]) + 1), text, count=1)
    return changed if changed != text else f"{text}x"


def _edited(path: Path, read: list[Any], keys: tuple[Any, ...], *after: Any) -> Callable[[], str]:
    def text() -> str:
        edited = copy.deepcopy(read)
        holder: Any = edited
        for key in keys[:-1]:
            holder = holder[key]
        if after:
            holder[keys[-1]] = after[0]
        else:
            del holder[keys[-1]]
        return json.dumps(edited[0]) if path.suffix == ".json" else yaml.safe_dump_all(edited)

    return text
