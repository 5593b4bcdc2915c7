"""The kinds of PATCH."""

import copy
from typing import Any

from nightshift_testkit.cluster.kinds import Json
from nightshift_testkit.cluster.problems import StatusError

# by what a list's items are told apart, the first key that all of them have
KEYS = ("name", "uid", "type", "mountPath", "containerPort", "key", "ip")


def patched(value: Json, patch: Any, media: str) -> Json:
    """Return what a patch makes of an object.

    Raises:
        StatusError: when the media type is not one of a patch, or an operation cannot be done.
    """
    done = copy.deepcopy(value)
    if media == "application/json-patch+json":
        for operation in patch:
            done = _operated(done, operation)
        return done
    if media == "application/merge-patch+json":
        return _merged(done, patch, lists=False)
    if media in ("application/strategic-merge-patch+json", "application/apply-patch+yaml"):
        return _merged(done, patch, lists=True)
    raise StatusError(415, f"the body of the request was in an unknown format: {media}")


def _merged(old: Any, new: Any, lists: bool) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return _joined(old, new) if lists and isinstance(old, list) and isinstance(new, list) else new
    if new.get("$patch") == "replace":
        return {name: value for name, value in new.items() if name != "$patch"}
    done = dict(old)
    for name, value in new.items():
        if value is None:
            done.pop(name, None)
        elif not name.startswith("$"):  # directives about order, which change nothing here
            done[name] = _merged(old.get(name, {} if isinstance(value, dict) else None), value, lists)
    return done


def _joined(old: list[Any], new: list[Any]) -> list[Any]:
    """Merge lists of objects by their key, and replace all others."""
    items = [*old, *new]
    key = next((key for key in KEYS if items and all(isinstance(item, dict) and key in item for item in items)), None)
    if key is None:
        return [item for item in new if item != {"$patch": "replace"}]
    done = {item[key]: item for item in old}
    for item in new:
        if item.get("$patch") == "delete":
            done.pop(item[key], None)
        else:
            done[item[key]] = _merged(done.get(item[key], {}), item, lists=True)
    return list(done.values())


def _operated(value: Json, operation: Json) -> Json:
    try:
        return _operate(value, operation)
    except (KeyError, IndexError, TypeError, ValueError):
        raise StatusError(422, f"the server rejected our request: {operation}", reason="Invalid") from None


def _operate(value: Json, operation: Json) -> Json:
    kind, path = operation["op"], operation["path"]
    if kind in ("move", "copy"):
        moved = copy.deepcopy(_at(value, operation["from"]))
        if kind == "move":
            _operate(value, {"op": "remove", "path": operation["from"]})
        return _operate(value, {"op": "add", "path": path, "value": moved})
    if kind == "test":
        if _at(value, path) != operation["value"]:
            raise ValueError(path)
        return value
    if not path:
        return operation["value"]
    parent, last = _at(value, path.rpartition("/")[0]), _plain(path.rpartition("/")[2])
    _change(parent, last, kind, operation.get("value"))
    return value


def _change(parent: Any, last: str, kind: str, new: Any) -> None:
    if isinstance(parent, list):
        at = len(parent) if last == "-" else int(last)
        if kind == "add":
            parent.insert(at, new)
        elif kind == "replace":
            parent[at] = new
        else:
            del parent[at]
    elif kind == "remove":
        del parent[last]
    elif kind == "add" or last in parent:
        parent[last] = new
    else:
        raise KeyError(last)


def _at(value: Any, path: str) -> Any:
    for part in path.split("/")[1:]:
        value = value[int(part)] if isinstance(value, list) else value[_plain(part)]
    return value


def _plain(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
