"""Queries of dashboards and alerts: rates of counters, units, comparators."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from promql_parser import AggregateExpr, BinaryExpr, Expr, MatrixSelector, NumberLiteral, SubqueryExpr, display_duration

from infra.policies import promql, quantities
from infra.policies.model import Environment, Json, Problem, Severity, blocks, label, one_of, policy, table

_COUNTER = re.compile(r"[\w:]+_(total|bucket|count|sum)")
_SEVERITY = re.compile(r"severity *= *[\"']?(\w+)")
_YES_OR_NO = re.compile(r"\w+_(raised|retrain|passed|started|degraded)")


@dataclass(frozen=True)
class Panel:
    """One query of a panel: its name in findings, expression, legend and unit."""

    where: str
    expression: str
    legend: str
    unit: str

    @property
    def query(self) -> Expr:
        """The tree of the expression."""
        return promql.parse(self.expression)


def panels(environment: Environment) -> Iterator[Panel]:
    """Yield every query of the dashboards."""
    for board in environment.of_kind("ConfigMap"):
        for name, text in board.get("data", {}).items():
            if name.endswith(".json"):
                for _, panel in blocks(json.loads(text), "panels"):
                    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
                    for target in panel.get("targets", []):
                        where = f"dashboards/{name} panel {panel.get('title')!r}"
                        yield Panel(where, target.get("expr", ""), target.get("legendFormat", ""), unit)


def alerts(environment: Environment) -> Iterator[tuple[str, Json, Expr]]:
    """Yield every alert with its name in findings and the tree of its expression."""
    for rules in environment.of_kind("PrometheusRule"):
        for rule in (rule for group in rules["spec"]["groups"] for rule in group["rules"]):
            yield f"{label(rules)} {rule.get('alert', rule.get('record'))}", rule, promql.parse(rule["expr"])


@policy("https://prometheus.io/docs/alerting/latest/configuration/#matcher")
def routes_take_the_severities_of_alerts(environment: Environment) -> Iterator[Problem]:
    """A route for a severity that no alert has leaves its receiver without a message."""
    known = {rule["labels"]["severity"] for _, rule, _ in alerts(environment) if "severity" in rule.get("labels", {})}
    for file, values in environment.values_files:
        for path, block in blocks(values):
            for severity in _SEVERITY.findall(" ".join(map(str, block.get("matchers") or ()))):
                if known and severity not in known:
                    yield Problem(file, f"{path}.matchers", severity, one_of(known))


def queries(environment: Environment) -> Iterator[tuple[str, Expr]]:
    """Yield the tree of every expression of panels, alerts and autoscalers with its name in findings."""
    yield from ((where, promql.parse(text)) for where, text in _texts(environment))


def _texts(environment: Environment) -> Iterator[tuple[str, str]]:
    yield from ((panel.where, panel.expression) for panel in panels(environment))
    yield from ((where, rule["expr"]) for where, rule, _ in alerts(environment))
    for value in environment.of_kind("ScaledObject"):
        for trigger in (trigger["metadata"] for trigger in value["spec"]["triggers"]):
            if "query" in trigger:
                yield label(value), trigger["query"]


@policy("https://prometheus.io/docs/prometheus/latest/querying/basics/")
def queries_are_valid(environment: Environment) -> Iterator[Problem]:
    """Prometheus refuses a file of rules with one invalid query, and Grafana shows an empty panel."""
    for where, text in _texts(environment):
        if mistake := promql.validate(text)[1]:
            yield Problem(where, "expr", text, f"must be PromQL: {mistake}")


@policy("https://prometheus.io/docs/prometheus/latest/querying/functions/#rate")
def rates_use_counters(environment: Environment) -> Iterator[Problem]:
    """The rate of a gauge is noise, and a counter without a rate only grows."""
    for where, query in queries(environment):
        rated = {metric for call in promql.calls(query, *promql.RATES) for metric in promql.metrics(call)}
        for metric in rated:
            if not _COUNTER.fullmatch(metric):
                yield Problem(
                    where, "rate", metric, "must be a counter: show a gauge as it is, or with deriv or avg_over_time"
                )
        for metric in {*promql.metrics(query)} - rated:
            if _COUNTER.fullmatch(metric):
                yield Problem(where, "expr", metric, "must be read with rate or increase: it is a counter")


@policy("https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile")
def quantiles_use_buckets_grouped_by_le(environment: Environment) -> Iterator[Problem]:
    """Without the label le a quantile is empty, and a legend with another quantile misleads its reader."""
    for where, query in queries(environment):
        for share, buckets in _quantiles(query):
            if not 0 < share < 1:
                yield Problem(where, "histogram_quantile", f"{share:g}", "must be a share, such as 0.99")
            has_buckets = any(metric.endswith("_bucket") for metric in promql.metrics(buckets))
            if not has_buckets or "le" not in (promql.grouping(buckets) or ()):
                yield Problem(where, "histogram_quantile", str(buckets), "must sum the rates of buckets by (le)")
    for panel in panels(environment):
        percentile = re.search(r"\bp(\d+)\b", panel.legend)
        quantile = next((share for share, _ in _quantiles(panel.query)), None)
        if percentile and quantile and float(f"0.{percentile[1]}") != quantile:
            yield Problem(panel.where, "legendFormat", panel.legend, f"the query computes the quantile {quantile:g}")


def _quantiles(query: Expr) -> Iterator[tuple[float, Expr]]:
    """Yield the share and the buckets of every quantile of a histogram."""
    for call in promql.calls(query, "histogram_quantile"):
        share, buckets = call.args
        if isinstance(share, NumberLiteral):
            yield share.val, buckets


@policy("infra/policies/tables/monitoring.yaml, units", Severity.ADVICE)
def panels_show_the_unit_of_their_metric(environment: Environment) -> Iterator[Problem]:
    """Grafana accepts any unit: with the wrong one it shows a number a thousand times too large."""
    for panel in panels(environment):
        units = _units(panel.query)
        if units and panel.unit not in units:
            allowed = f"must be {' or '.join(units)}, the unit of {panel.expression}"
            yield Problem(panel.where, "fieldConfig.defaults.unit", panel.unit, allowed)
        if panel.unit != "percentunit":
            continue
        ratio = next(iter(promql.operations(panel.query, "/")), None)
        if ratio and not {*promql.metrics(ratio.lhs)} & {*promql.metrics(ratio.rhs)}:
            yield Problem(panel.where, "expr", panel.expression, "a share must divide by a total of the same metric")
        if any(promql.constant(product.rhs) == 100 for product in promql.operations(panel.query, "*")):
            yield Problem(panel.where, "expr", panel.expression, "must not multiply by 100: percentunit is a share")


def _units(query: Expr) -> list[str]:
    """Return the possible units of a query; empty where they are not known."""
    known, metrics = table("monitoring"), promql.metrics(query)
    if not metrics or promql.operations(query, "*") or promql.calls(query, "increase"):
        return []
    if isinstance(query, AggregateExpr) and str(query.op) == "count":
        return ["short", "none"]
    if promql.operations(query, "/"):
        # a ratio of one metric is a share; the unit of any other ratio is not known
        return ["percentunit"] if metrics[0] in metrics[1:] else []
    if any(promql.calls(difference.lhs, "time") for difference in promql.operations(query, "-")):
        return ["s", "dtdurations"]
    if promql.calls(query, *promql.RATES) and not promql.calls(query, "histogram_quantile"):
        return list(known["rates"])
    name = metrics[0].removesuffix("_bucket")
    return next((row["units"] for row in known["units"] if re.fullmatch(row["metric"], name)), [])


@policy("https://prometheus.io/docs/prometheus/latest/querying/functions/#rate", Severity.ADVICE)
def windows_hold_several_samples(environment: Environment) -> Iterator[Problem]:
    """A window of fewer than four scrapes is empty when some fail, and a fixed one skips data in a wide panel."""
    shortest = table("monitoring")["shortest_window"]
    for where, query in queries(environment):
        parts: list[MatrixSelector | SubqueryExpr] = [
            *promql.nodes(query, MatrixSelector),
            *promql.nodes(query, SubqueryExpr),
        ]
        for part in parts:
            if part.range and part.range.total_seconds() < shortest:
                window = f"[{display_duration(part.range)}]"
                yield Problem(where, "expr", window, f"a window must be at least {shortest} s")
    for panel in panels(environment):
        if promql.calls(panel.query, *promql.RATES) and promql.INTERVAL not in panel.expression:
            yield Problem(panel.where, "expr", panel.expression, f"a panel's window must be [{promql.INTERVAL}]")


@policy("infra/policies/tables/monitoring.yaml, alerts", Severity.ADVICE)
def alert_comparisons_fit_their_metric(environment: Environment) -> Iterator[Problem]:
    """An alert with the wrong comparator or limit fires while all is well, and is silent in an incident."""
    known = table("monitoring")
    for where, rule, query in alerts(environment):
        row = next((row for row in known["alerts"] if _is_about(row, rule["alert"], query)), None)
        comparison, number = next(promql.comparisons(query), (None, 0.0))
        if row and (comparison is None or str(comparison.op) != row["operator"]):
            yield Problem(where, "expr", rule["expr"], f"must compare with {row['operator']}: {row['why']}")
        elif row and not row["from"] <= number <= row["to"]:
            allowed = f"{number:g} must lie between {row['from']} and {row['to']}: {row['why']}"
            yield Problem(where, "expr", rule["expr"], allowed)
        if quantities.duration(rule.get("for", "0s")) > known["longest_wait"]:
            yield Problem(where, "for", rule["for"], f"must be at most {known['longest_wait']} s")


def _is_about(row: Json, alert: str, query: Expr) -> bool:
    is_named = row.get("only", alert) == alert
    return is_named and any(re.fullmatch(row["metric"], metric) for metric in promql.metrics(query))


@policy("https://prometheus.io/docs/prometheus/latest/querying/basics/#subquery")
def sums_over_subqueries_can_exceed_their_limit(environment: Environment) -> Iterator[Problem]:
    """A sum of zeros and ones is at most the subquery's number of steps: an alert on more never fires."""
    for where, _, query in alerts(environment):
        for comparison, number in promql.comparisons(query):
            for call in promql.calls(comparison.lhs, "sum_over_time", "count_over_time"):
                window, (metric, *_) = call.args[0], promql.metrics(call)
                if not isinstance(window, SubqueryExpr) or not (window.range and window.step):
                    continue
                steps = window.range / window.step
                if _YES_OR_NO.fullmatch(metric) and number >= steps:
                    allowed = f"{metric} is 0 or 1 at each of {steps:g} steps, so the sum never exceeds {number:g}"
                    yield Problem(where, "expr", str(comparison), allowed)


@policy("https://prometheus.io/docs/prometheus/latest/querying/operators/#vector-matching")
def operands_are_aggregated_by_the_same_labels(environment: Environment) -> Iterator[Problem]:
    """Without on() or ignoring() series match by all labels: operands with other labels give an empty result."""
    for where, query in queries(environment):
        for operation in promql.nodes(query, BinaryExpr):
            sides = [promql.grouping(side) for side in (operation.lhs, operation.rhs)]
            is_matched = operation.modifier is not None and operation.modifier.matching is not None
            if None not in sides and sides[0] != sides[1] and not is_matched:
                groups = " and ".join(f"({', '.join(sorted(labels or ()))})" for labels in sides)
                yield Problem(where, "expr", str(operation), f"operands must have the same labels, not {groups}")


@policy("https://prometheus.io/docs/prometheus/latest/configuration/template_reference/#functions", Severity.ADVICE)
def annotations_format_values_by_their_unit(environment: Environment) -> Iterator[Problem]:
    """An alert formatted in the wrong unit reports a number that misleads the person on call."""
    for where, rule, query in alerts(environment):
        text, expression, metrics = str(rule.get("annotations", {})), rule["expr"], promql.metrics(query)
        is_share = promql.operations(query, "/") or any(re.search("_(share|ACTIVE)$", name) for name in metrics)
        if "humanizeDuration" in text and not any("_seconds" in name for name in metrics):
            yield Problem(where, "annotations", "humanizeDuration", f"{expression} is not in seconds")
        if "humanizePercentage" in text and not is_share:
            yield Problem(where, "annotations", "humanizePercentage", f"{expression} is not a share")
        if "humanizeTimestamp" in text and not any("_timestamp_" in name for name in metrics):
            yield Problem(where, "annotations", "humanizeTimestamp", f"{expression} is not a timestamp")
