"""Series that queries select: exported metrics and labels, and comparisons that are not constant."""

import re
from collections.abc import Iterator

from promql_parser import (
    AggModifierType,
    AggregateExpr,
    BinaryExpr,
    Expr,
    LabelModifierType,
    Matcher,
    MatchOp,
    VectorSelector,
)

from infra.policies import promql
from infra.policies.model import Environment, Json, Problem, Severity, one_of, policy, table
from infra.policies.queries import alerts, panels, queries

_TABLE = "infra/policies/tables/monitoring.yaml, series"
# labels that Prometheus adds to every series, and histograms to their buckets
_TARGET_LABELS = {"instance", "job", "namespace", "pod", "service", "endpoint", "container", "node", "le"}


def _is_of_others(metric: str) -> bool:
    """Say whether a program of others, whose labels are not looked at, has a metric."""
    return any(re.fullmatch(pattern, metric) for pattern in table("monitoring")["others"])


def _labels(metric: str) -> Json | None:
    """Return the labels of a metric with their values, where those are few; None where no exporter has the metric."""
    rows = table("monitoring")["series"]
    return next((row["labels"] for row in rows if re.fullmatch(row["metric"], metric)), None)


@policy(_TABLE)
def queries_select_exported_series(environment: Environment) -> Iterator[Problem]:
    """A metric, label or value that nothing exports makes a panel empty and an alert silent, without an error."""
    recorded = {rule["record"] for _, rule, _ in alerts(environment) if "record" in rule}
    for where, query in queries(environment):
        labels_of_query: set[str] = set()
        for selector in promql.nodes(query, VectorSelector):
            labels = _labels(selector.name or "")
            if labels is not None:
                labels_of_query |= labels.keys()
                yield from _mismatches(where, selector, labels)
            elif selector.name not in recorded and not _is_of_others(selector.name or ""):
                yield Problem(where, "expr", selector.name, "no exporter has this metric")
        for name in _grouping_labels(query) - labels_of_query - _TARGET_LABELS if labels_of_query else ():
            yield Problem(where, "expr by", name, f"no series has this label: {one_of(labels_of_query)}")


def _mismatches(where: str, selector: VectorSelector, labels: Json) -> Iterator[Problem]:
    """Yield the matchers whose label, or value of a label, a metric lacks."""
    for matcher in selector.matchers.matchers:
        name, field = matcher.name, f"expr {selector.name}"
        if name not in labels.keys() | _TARGET_LABELS:
            yield Problem(where, field, name, f"the metric lacks this label: {one_of(labels)}")
        elif not matcher.value.startswith("$") and not _selects_a_value(labels.get(name), matcher):
            yield Problem(where, field, str(matcher), f"no series has this value: {one_of(labels[name])}")


def _selects_a_value(values: list[str] | None, matcher: Matcher) -> bool:
    """Say whether a matcher selects some of a label's values; a label without a list may have any value."""
    equal = re.fullmatch if matcher.op in (MatchOp.Re, MatchOp.NotRe) else str.__eq__
    return not values or any(bool(equal(matcher.value, value)) for value in values)


def _grouping_labels(query: Expr) -> set[str]:
    """Return the labels that by() and on() name."""
    modifiers = [part.modifier for part in promql.nodes(query, AggregateExpr)]
    matchings = [part.modifier.matching for part in promql.nodes(query, BinaryExpr) if part.modifier]
    wanted = (AggModifierType.By, LabelModifierType.Include)
    return {name for part in (*modifiers, *matchings) if part and part.type in wanted for name in part.labels}


@policy("https://prometheus.io/docs/prometheus/latest/querying/operators/#aggregation-operators", Severity.ADVICE)
def texts_use_labels_of_their_query(environment: Environment) -> Iterator[Problem]:
    """A legend or annotation is blank where its label is not in the series, or was dropped by an aggregation."""
    texts = [(panel.where, "legendFormat", panel.query, panel.legend) for panel in panels(environment)]
    for where, rule, query in alerts(environment):
        text = str(rule.get("annotations", {})).replace("$labels.", "").replace("$value", "")
        texts.append((where, "annotations", query, text))
    for where, field, query, text in texts:
        labels = _result_labels(query)
        for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", text):
            if name not in labels:
                yield Problem(where, field, name, f"the query's result lacks this label: {one_of(labels)}")


def _result_labels(query: Expr) -> set[str]:
    """Return the labels of a query's result."""
    grouped = promql.grouping(query)
    if grouped is not None:
        return {*grouped}
    return {name for metric in promql.metrics(query) for name in _labels(metric) or ()} | _TARGET_LABELS


@policy("infra/policies/tables/monitoring.yaml, domains")
def alert_comparisons_can_be_true_and_false(environment: Environment) -> Iterator[Problem]:
    """An alert that compares beyond a metric's range never fires or always does: a share never exceeds 1."""
    for where, _, query in alerts(environment):
        for comparison, number in promql.comparisons(query):
            domain = _domain(comparison.lhs)
            outcome = _constant_outcome(str(comparison.op), number, *domain) if domain else ""
            if domain and outcome:
                allowed = f"it is {outcome} true: the compared value lies between {domain[0]:g} and {domain[1]:g}"
                yield Problem(where, "expr", f"{comparison.op} {comparison.rhs}", allowed)


def _domain(operand: Expr) -> tuple[float, float] | None:
    """Return the least and the largest value of an operand; None where they are not known."""
    if promql.calls(operand, "absent"):
        return 1, 1
    metrics = promql.metrics(operand)
    if promql.operations(operand, "/"):
        return (0, 1) if len(set(metrics)) == 1 else None
    if _sums(operand) and not promql.calls(operand, "histogram_quantile"):
        return None
    rows = table("monitoring")["domains"]
    return next(((row["from"], row["to"]) for row in rows if metrics and re.fullmatch(row["metric"], metrics[0])), None)


def _sums(query: Expr) -> bool:
    """Return whether a query adds up or counts series or samples."""
    is_aggregated = any(str(part.op) in {"sum", "count"} for part in promql.nodes(query, AggregateExpr))
    return is_aggregated or bool(promql.calls(query, "sum_over_time", "count_over_time"))


def _constant_outcome(sign: str, number: float, least: float, most: float) -> str:
    """Return never or always where a comparison has one outcome between two bounds; else an empty text."""
    never = {
        ">": number >= most,
        ">=": number > most,
        "<": number <= least,
        "<=": number < least,
        "==": not least <= number <= most,
        "!=": least == most == number,
    }
    always = {
        ">": number < least,
        ">=": number <= least,
        "<": number > most,
        "<=": number >= most,
        "==": least == most == number,
        "!=": not least <= number <= most,
    }
    return "never" if never[sign] else "always" if always[sign] else ""


@policy("infra/monitoring/rules", Severity.ADVICE)
def alerts_link_to_their_runbook(environment: Environment) -> Iterator[Problem]:
    """A link to another section shows the person on call the wrong steps."""
    for where, rule, _ in (alert for alert in alerts(environment) if "alert" in alert[1]):
        link, anchor = rule.get("annotations", {}).get("runbook_url"), str(rule.get("alert")).lower()
        if not str(link).startswith("https://") and link != f"docs/runbooks/alerts.md#{anchor}":
            yield Problem(where, "annotations.runbook_url", link, f"must be docs/runbooks/alerts.md#{anchor}")
