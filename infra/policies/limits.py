"""Values with a meaning of their own: retention, units, thresholds, and what images and APIs fix."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from infra.policies import quantities
from infra.policies.model import Environment, Json, Problem, label, leaves, policy, table

READERS: Mapping[str, Callable[[object], Any]] = {
    "text": str,
    "number": quantities.number,
    "seconds": quantities.seconds,
    "duration": quantities.duration,
    "bytes": quantities.size,
    "cores": quantities.cores,
}


@policy("infra/policies/tables/limits.yaml names one for each row")
def values_are_what_they_mean(environment: Environment) -> Iterator[Problem]:
    """Every value that `tables/limits.yaml` knows is read with its unit and lies within its bounds."""
    for kind, where, content in _described(environment):
        rows = [row for row in table("limits") if row["of"] == kind or (row["of"] == "*" and kind[0].isupper())]
        for path, value in leaves(content):
            for row in rows:
                if _ends(path, row["field"]) and (allowed := _refused(row, value, environment.facts)):
                    yield Problem(where, ".".join(path), value, f"{allowed}: {row['why']} ({row['source']})")


@policy("infra/policies/tables/members.yaml names one for each row")
def lists_hold_what_is_needed(environment: Environment) -> Iterator[Problem]:
    """A list that lacks one of what `tables/members.yaml` asks for leaves that undone, and nothing says so."""
    for kind, where, content in _described(environment):
        for row in (row for row in table("members") if row["of"] == kind):
            held = {str(value) for path, value in leaves(content) if ".".join(path) == row["field"]}
            for missing in {*row["has"]} - held if held else ():
                allowed = f"it lacks {missing}: {row['why']} ({row['source']})"
                yield Problem(where, row["field"], sorted(held), allowed)


def _described(environment: Environment) -> Iterator[tuple[str, str, Json]]:
    yield from ((resource.type, resource.address, resource.values) for resource in environment.resources)
    yield from ((value["kind"], label(value), value) for value in environment.objects)
    yield from (("workflow defaults", where, spec) for where, spec in _workflows(environment))
    yield from ((f"chart {name}", f"infra/cluster/values/{name}.yaml", our) for name, our in environment.values.items())


def _workflows(environment: Environment) -> Iterator[tuple[str, Json]]:
    for value in environment.of_kind("ConfigMap"):
        if text := value.get("data", {}).get("workflowDefaults"):
            yield f"{label(value)} workflowDefaults", yaml.safe_load(text)["spec"]


def _ends(path: tuple[str, ...], field: list[str]) -> bool:
    if len(path) < len(field):
        return False
    return all(name in ("*", key) for key, name in zip(path[-len(field) :], field, strict=True))


def _refused(row: Json, value: object, facts: Mapping[str, str]) -> str:
    """Return what is allowed, or an empty text where the value is."""
    try:
        read = READERS[row["as"]](value)
    except ValueError as error:
        return f"it has to be read as {row['as']}, and {error}"
    if "one_of" in row:
        return "" if read in row["one_of"] else f"it has to be {' or '.join(row['one_of'])}"
    if "not" in row:
        return f"it must not be {read}" if read in row["not"] else ""
    if "matches" in row:
        pattern = row["matches"]
        for name, fact in facts.items():
            pattern = pattern.replace(f"{{{name}}}", re.escape(fact))
        return "" if re.fullmatch(pattern, read) else f"it has to match {pattern}"
    lowest, highest = (READERS[row["as"]](row[bound]) for bound in ("from", "to"))
    return "" if lowest <= read <= highest else f"it has to lie between {row['from']} and {row['to']}"
