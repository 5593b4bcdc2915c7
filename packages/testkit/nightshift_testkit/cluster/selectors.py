"""Label and field selectors."""

import re
from typing import Any

from nightshift_testkit.cluster.kinds import EVENT, NODE, POD, Json, ResourceKind
from nightshift_testkit.cluster.problems import StatusError

TERM = re.compile(
    r"\s*(?:(!?)\s*([^\s!=,()]+)|([^\s!=,()]+)\s*(==|=|!=|\s+in\s+|\s+notin\s+)\s*(\([^)]*\)|[^,()]*))\s*(?:,|$)"
)
FIELDS = {
    POD: ("status.phase", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    NODE: ("spec.unschedulable",),
    EVENT: (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.fieldPath", "reason", "type", "source",
    ),
}  # fmt: skip


def fits(labels: dict[str, str], selector: Json | None) -> bool:
    """Whether labels match a LabelSelector; an empty one matches all, none matches nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels", {}).items()
    return wanted <= labels.items() and all(_expressed(labels, term) for term in selector.get("matchExpressions", []))


def _expressed(labels: dict[str, str], term: Json) -> bool:
    return _holds(labels.get(term["key"]), term["operator"], term.get("values", []))


def _holds(value: str | None, operator: str, wanted: list[str]) -> bool:
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    return (value in wanted) == (operator == "In")


class Selection:
    """What a list or a watch asks for."""

    def __init__(self, kind: ResourceKind, labels: str = "", fields: str = "") -> None:
        self._labels = _terms(labels)
        self._fields = _terms(fields)
        known = ("metadata.name", "metadata.namespace", *FIELDS.get(kind, ()))
        for name, *_ in self._fields:
            if name not in known:
                raise StatusError(400, f"field label not supported: {name}")

    def __contains__(self, value: Json) -> bool:
        labels = value["metadata"].get("labels", {})
        return all(_holds(labels.get(key), *term) for key, *term in self._labels) and all(
            _holds(_field(value, key), *term) for key, *term in self._fields
        )


def _terms(text: str) -> list[tuple[str, str, list[str]]]:
    terms, at = [], 0
    while at < len(text):
        match = TERM.match(text, at)
        if not match or match.end() == at:
            raise StatusError(400, f"unable to parse requirement: {text!r}")
        terms.append(_term(*match.groups()))
        at = match.end()
    return terms


def _term(no: str | None, alone: str | None, key: str | None, operator: str | None, value: str | None) -> Any:
    if alone:
        return alone, "DoesNotExist" if no else "Exists", []
    sign = (operator or "").strip()
    values = [word.strip() for word in (value or "").strip("()").split(",")]
    return key, "NotIn" if sign in ("!=", "notin") else "In", values


def _field(value: Json, path: str) -> str:
    nested: Any = value
    for name in path.split("."):
        nested = nested.get(name, "") if isinstance(nested, dict) else ""
    return str(nested).lower() if isinstance(nested, bool) else str(nested)
