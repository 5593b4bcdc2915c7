"""Limits of single values: retention, units, thresholds, and what images and APIs require."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infra.policies import quantities
from infra.policies.model import Environment, Json, Problem, Severity, label, leaves, policy, table
from nightshift.runtime import strict_yaml

READERS: Mapping[str, Callable[[object], Any]] = {
    "text": str,
    "number": quantities.number,
    "seconds": quantities.seconds,
    "duration": quantities.duration,
    "bytes": quantities.size,
    "cores": quantities.cores,
}


@policy("infra/policies/tables/limits.yaml names one for each row")
def values_are_within_their_limits(environment: Environment) -> Iterator[Problem]:
    """A value without its unit, or beyond the bounds in `tables/limits.yaml`, is valid and means something else."""
    for kind, where, content in _contents(environment):
        rows = [row for row in table("limits") if row["of"] == kind or (row["of"] == "*" and kind[0].isupper())]
        for path, value in leaves(content):
            for row in rows:
                if _ends(path, row["field"]) and (allowed := _violation(row, value, environment.facts)):
                    reason = f"{allowed}: {row['why']} ({row['source']})"
                    severity = Severity(row.get("level", Severity.BREAKS))
                    yield Problem(where, ".".join(path), value, reason, _rule(row), severity)


@policy("infra/policies/tables/members.yaml names one for each row")
def lists_have_their_required_members(environment: Environment) -> Iterator[Problem]:
    """A list without a member in `tables/members.yaml` silently turns that feature off."""
    for kind, where, content in _contents(environment):
        for row in (row for row in table("members") if row["of"] == kind):
            members = {str(value) for path, value in leaves(content) if ".".join(path) == row["field"]}
            for missing in {*row["has"]} - members if members else ():
                allowed = f"must include {missing}: {row['why']} ({row['source']})"
                yield Problem(where, row["field"], sorted(members), allowed, _rule(row))


def _rule(row: Json) -> str:
    """Return the name of a row in findings and waivers."""
    field = row["field"]
    return f"{row['of']}.{field if isinstance(field, str) else '.'.join(field)}".replace("*", "any")


ROWS = [_rule(row) for name in ("limits", "members") for row in table(name)]


def _contents(environment: Environment) -> Iterator[tuple[str, str, Json]]:
    """Yield kind, name in findings and content of every resource, object and chart's values."""
    yield from ((resource.type, resource.address, resource.values) for resource in environment.resources)
    yield from ((value["kind"], label(value), value) for value in environment.objects)
    yield from (("workflow defaults", where, spec) for where, spec in _workflows(environment))
    yield from (
        (f"chart {name}", f"infra/cluster/values/{name}.yaml", values) for name, values in environment.values.items()
    )


def _workflows(environment: Environment) -> Iterator[tuple[str, Json]]:
    for value in environment.of_kind("ConfigMap"):
        if text := value.get("data", {}).get("workflowDefaults"):
            yield f"{label(value)} workflowDefaults", strict_yaml.load_document(text)["spec"]


def _ends(path: tuple[str, ...], field: list[str]) -> bool:
    if len(path) < len(field):
        return False
    return all(name in ("*", key) for key, name in zip(path[-len(field) :], field, strict=True))


def _violation(row: Json, value: object, facts: Mapping[str, str]) -> str:
    """Return the limit that a value violates; an empty text where it is within it."""
    try:
        read = READERS[row["as"]](value)
    except ValueError as error:
        return f"must be read as {row['as']}, but {error}"
    if "one_of" in row:
        return "" if read in row["one_of"] else f"must be {' or '.join(row['one_of'])}"
    if "not" in row:
        return f"must not be {read}" if read in row["not"] else ""
    if "matches" in row:
        pattern = row["matches"]
        for name, fact in facts.items():
            pattern = pattern.replace(f"{{{name}}}", re.escape(fact))
        return "" if re.fullmatch(pattern, read) else f"must match {pattern}"
    lowest, highest = (READERS[row["as"]](row[bound]) for bound in ("from", "to"))
    return "" if lowest <= read <= highest else f"must lie between {row['from']} and {row['to']}"
