"""Queries of dashboards and alerts: rates of counters, units, comparators."""

import ast
import json
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass

from infra.policies import quantities
from infra.policies.model import Environment, Json, Problem, label, policy, table

_COUNTER = re.compile(r"\w+_(total|bucket|count|sum)")
_RATE = re.compile(r"\b(rate|irate|increase)\s*\(\s*(\w+)")
_SERIES = re.compile(r"\b(nightshift_\w+|DCGM_\w+|process_\w+|kube_\w+|vllm:\w+)")
COMPARED = re.compile(r"(<=|>=|==|!=|<|>)\s*([\d.]+(?:\s*[*/+-]\s*[\d.]+)*)\s*\)?\s*(?:\n|$|and\b|unless\b)")
_SUBQUERY = re.compile(
    r"(?:sum|count)_over_time\((\w+_(?:raised|retrain|passed|started|degraded))[^\[]*\[(\w+):(\w+)\]\)\s*>\s*([\d.]+)"
)
# the labels of a sum at the start of an expression or behind an operator between vectors
_SIDE = re.compile(r"(?:^|[/<>]|\b(?:and|or|unless))\s*(?:sum|max|min|avg|count)\s+by\s*\(([^)]*)\)")
_OPERATORS = {ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Add: operator.add, ast.Sub: operator.sub}


@dataclass(frozen=True)
class Panel:
    """One query of a panel: its name in findings, expression, legend and unit."""

    where: str
    expression: str
    legend: str
    unit: str


def panels(environment: Environment) -> Iterator[Panel]:
    """Yield every query of the dashboards."""
    for board in environment.of_kind("ConfigMap"):
        for name, text in board.get("data", {}).items():
            if name.endswith(".json"):
                for panel in json.loads(text)["panels"]:
                    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
                    for target in panel["targets"]:
                        where = f"dashboards/{name} panel {panel['title']!r}"
                        yield Panel(where, target["expr"], target.get("legendFormat", ""), unit)


def alerts(environment: Environment) -> Iterator[tuple[str, Json]]:
    """Yield every alert with its name in findings."""
    for rules in environment.of_kind("PrometheusRule"):
        for rule in (rule for group in rules["spec"]["groups"] for rule in group["rules"]):
            yield f"{label(rules)} {rule.get('alert', rule.get('record'))}", rule


def expressions(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield every expression of panels and alerts with its name in findings."""
    yield from ((panel.where, panel.expression) for panel in panels(environment))
    yield from ((where, rule["expr"]) for where, rule in alerts(environment))


@policy("https://prometheus.io/docs/prometheus/latest/querying/functions/#rate")
def rates_use_counters(environment: Environment) -> Iterator[Problem]:
    """The rate of a gauge is noise, and a counter without a rate only grows."""
    for where, text in expressions(environment):
        rated = {metric for _, metric in _RATE.findall(text)}
        for metric in rated:
            if not _COUNTER.fullmatch(metric):
                yield Problem(
                    where, "rate", metric, "must be a counter: show a gauge as it is, or with deriv or avg_over_time"
                )
        for metric in {*_SERIES.findall(text)} - rated:
            if _COUNTER.fullmatch(metric):
                yield Problem(where, "expr", metric, "must be read with rate or increase: it is a counter")


@policy("https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile")
def quantiles_use_buckets_grouped_by_le(environment: Environment) -> Iterator[Problem]:
    """Without the label le a quantile is empty, and a legend with another quantile misleads its reader."""
    for where, text in expressions(environment):
        for share, inside in re.findall(r"histogram_quantile\(\s*([\d.]+)\s*,(.*)", text, re.DOTALL):
            if not 0 < float(share) < 1:
                yield Problem(where, "histogram_quantile", share, "must be a share, such as 0.99")
            if "_bucket" not in inside or not re.search(r"by \([^)]*\ble\b", inside):
                yield Problem(where, "histogram_quantile", inside.strip(), "must sum the rates of buckets by (le)")
    for panel in panels(environment):
        percentile = re.search(r"\bp(\d+)\b", panel.legend)
        quantile = re.search(r"histogram_quantile\(\s*0\.(\d+)", panel.expression)
        if percentile and quantile and float(f"0.{percentile[1]}") != float(f"0.{quantile[1]}"):
            yield Problem(panel.where, "legendFormat", panel.legend, f"the query computes the quantile 0.{quantile[1]}")


@policy("infra/policies/tables/monitoring.yaml, units")
def panels_show_the_unit_of_their_metric(environment: Environment) -> Iterator[Problem]:
    """Grafana accepts any unit: with the wrong one it shows a number a thousand times too large."""
    for panel in panels(environment):
        units = _units(panel.expression)
        if units and panel.unit not in units:
            allowed = f"must be {' or '.join(units)}, the unit of {panel.expression}"
            yield Problem(panel.where, "fieldConfig.defaults.unit", panel.unit, allowed)
        part, slash, whole = panel.expression.partition(" / ")
        shared = {*_SERIES.findall(part)} & {*_SERIES.findall(whole)}
        if slash and panel.unit == "percentunit" and not shared:
            yield Problem(panel.where, "expr", panel.expression, "a share must divide by a total of the same metric")
        if "* 100" in panel.expression and panel.unit == "percentunit":
            yield Problem(panel.where, "expr", panel.expression, "must not multiply by 100: percentunit is a share")


def _units(text: str) -> list[str]:
    """Return the possible units of an expression; empty where they are not known."""
    known = table("monitoring")
    bare = re.sub(r'"[^"]*"', "", text)
    metrics = _SERIES.findall(bare)
    if not metrics or "*" in bare or "increase(" in bare:
        return []
    if re.match(r"\s*count\([^)]*\)$", bare):
        return ["short", "none"]
    if " / " in bare:
        # a ratio of one metric is a share; the unit of any other ratio is not known
        return ["percentunit"] if metrics[0] in metrics[1:] else []
    if "time() - " in bare:
        return ["s", "dtdurations"]
    if "histogram_quantile" not in bare and _RATE.search(bare):
        return list(known["rates"])
    name = metrics[0].removesuffix("_bucket")
    return next((row["units"] for row in known["units"] if re.fullmatch(row["metric"], name)), [])


@policy("https://prometheus.io/docs/prometheus/latest/querying/functions/#rate")
def windows_hold_several_samples(environment: Environment) -> Iterator[Problem]:
    """A window of fewer than four scrapes is empty when some fail, and a fixed one skips data in a wide panel."""
    shortest = table("monitoring")["shortest_window"]
    for where, text in expressions(environment):
        for window in re.findall(r"\[(\d+\w+)(?::\w+)?\]", text):
            if quantities.duration(window) < shortest:
                yield Problem(where, "expr", f"[{window}]", f"a window must be at least {shortest} s")
    for panel in panels(environment):
        if _RATE.search(panel.expression) and "$__rate_interval" not in panel.expression:
            yield Problem(panel.where, "expr", panel.expression, "a panel's window must be [$__rate_interval]")


@policy("infra/policies/tables/monitoring.yaml, alerts")
def alert_comparisons_fit_their_metric(environment: Environment) -> Iterator[Problem]:
    """An alert with the wrong comparator or limit fires while all is well, and is silent in an incident."""
    known = table("monitoring")
    for where, rule in alerts(environment):
        compared = [*COMPARED.finditer(rule["expr"])]
        for row in known["alerts"]:
            if row.get("only", rule["alert"]) != rule["alert"] or not re.search(rf"\b{row['metric']}\b", rule["expr"]):
                continue
            sign, number = (compared[0][1], number_of(compared[0][2])) if compared else ("", None)
            if sign != row["operator"] or number is None:
                yield Problem(where, "expr", rule["expr"], f"must compare with {row['operator']}: {row['why']}")
            elif not row["from"] <= number <= row["to"]:
                allowed = f"{number:g} must lie between {row['from']} and {row['to']}: {row['why']}"
                yield Problem(where, "expr", rule["expr"], allowed)
            break
        wait = quantities.duration(rule.get("for", "0s"))
        if wait > known["longest_wait"]:
            yield Problem(where, "for", rule["for"], f"must be at most {known['longest_wait']} s")


@policy("https://prometheus.io/docs/prometheus/latest/querying/basics/#subquery")
def sums_over_subqueries_can_exceed_their_limit(environment: Environment) -> Iterator[Problem]:
    """A sum of zeros and ones is at most the subquery's number of steps: an alert on more never fires."""
    for where, rule in alerts(environment):
        for metric, window, step, number in _SUBQUERY.findall(rule["expr"]):
            steps = quantities.duration(window) / quantities.duration(step)
            if float(number) >= steps:
                allowed = f"{metric} is 0 or 1 at each of {steps:g} steps, so the sum never exceeds {number}"
                yield Problem(where, "expr", f"[{window}:{step}] > {number}", allowed)


@policy("https://prometheus.io/docs/prometheus/latest/querying/operators/#vector-matching")
def operands_are_aggregated_by_the_same_labels(environment: Environment) -> Iterator[Problem]:
    """Without on() or ignoring() series match by all labels: operands with other labels give an empty result."""
    for where, text in expressions(environment):
        groupings = {tuple(sorted(re.findall(r"\w+", labels))) for labels in _SIDE.findall(text)}
        if len(groupings) > 1 and not re.search(r"\b(on|ignoring)\s*\(", text):
            groups = " and ".join(f"({', '.join(labels)})" for labels in sorted(groupings))
            yield Problem(where, "expr", text, f"operands must have the same labels, not {groups}")


def number_of(text: str) -> float:
    """Return the value of a sum or product of numbers."""

    def walk(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            value: float = _OPERATORS[type(node.op)](walk(node.left), walk(node.right))
            return value
        assert isinstance(node, ast.Constant)
        return float(node.value)  # type: ignore[arg-type]

    return walk(ast.parse(text.strip(), mode="eval").body)


@policy("https://prometheus.io/docs/prometheus/latest/configuration/template_reference/#functions")
def annotations_format_values_by_their_unit(environment: Environment) -> Iterator[Problem]:
    """An alert formatted in the wrong unit reports a number that misleads the person on call."""
    for where, rule in alerts(environment):
        text, expression = str(rule.get("annotations", {})), rule["expr"]
        is_in_seconds = "_seconds" in expression
        is_share = " / " in expression or re.search(r"_(share|ACTIVE)\b", expression)
        if "humanizeDuration" in text and not is_in_seconds:
            yield Problem(where, "annotations", "humanizeDuration", f"{expression} is not in seconds")
        if "humanizePercentage" in text and not is_share:
            yield Problem(where, "annotations", "humanizePercentage", f"{expression} is not a share")
        if "humanizeTimestamp" in text and "_timestamp_" not in expression:
            yield Problem(where, "annotations", "humanizeTimestamp", f"{expression} is not a timestamp")
