"""Series that queries select: exported metrics and labels, and comparisons that are not constant."""

import re
from collections.abc import Iterator

from infra.policies.model import Environment, Json, Problem, one_of, policy, table
from infra.policies.queries import COMPARED, alerts, expressions, number_of, panels

_TABLE = "infra/policies/tables/monitoring.yaml, series"
_METRIC = re.compile(r"\b(nightshift_\w+|DCGM_\w+|process_\w+|kube_\w+|vllm:\w+)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
# labels that Prometheus adds to every series, and histograms to their buckets
_TARGET_LABELS = {"instance", "job", "namespace", "pod", "service", "endpoint", "container", "node", "le"}
_GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_AGGREGATED = re.compile(r"^\s*\(*\s*(?:sum|max|min|avg|count)\s*(?:by\s*\(([^)]*)\)|\()")


def _labels(metric: str) -> Json | None:
    """Return the labels of a metric with their values, where those are few; None where no exporter has the metric."""
    rows = table("monitoring")["series"]
    return next((row["labels"] for row in rows if re.fullmatch(row["metric"], metric)), None)


@policy(_TABLE)
def queries_select_exported_series(environment: Environment) -> Iterator[Problem]:
    """A metric, label or value that nothing exports makes a panel empty and an alert silent, without an error."""
    for where, text in expressions(environment):
        selected = [(metric, _labels(metric), matchers) for metric, matchers in _METRIC.findall(text)]
        for metric, labels, matchers in selected:
            if labels is None:
                yield Problem(where, "expr", metric, "no exporter has this metric")
            else:
                yield from _mismatches(where, metric, labels, matchers)
        labels_of_query = {name for _, labels, _ in selected for name in labels or ()}
        grouped = {name.strip() for names in _GROUPED.findall(text) for name in names.split(",")}
        for name in grouped - labels_of_query - _TARGET_LABELS - {""}:
            yield Problem(where, "expr by", name, f"no series has this label: {one_of(labels_of_query)}")


def _mismatches(where: str, metric: str, labels: Json, matchers: str) -> Iterator[Problem]:
    """Yield the matchers whose label, or value of a label, a metric lacks."""
    for name, sign, pattern in _MATCHER.findall(matchers):
        if name not in labels.keys() | _TARGET_LABELS:
            yield Problem(where, f"expr {metric}", name, f"the metric lacks this label: {one_of(labels)}")
        elif not pattern.startswith("$") and not _selects_a_value(labels.get(name), sign, pattern):
            matcher = f'{name}{sign}"{pattern}"'
            yield Problem(where, f"expr {metric}", matcher, f"no series has this value: {one_of(labels[name])}")


def _selects_a_value(values: list[str] | None, sign: str, pattern: str) -> bool:
    """Say whether a matcher selects some of a label's values; a label without a list may have any value."""
    equal = re.fullmatch if "~" in sign else str.__eq__
    return not values or any(bool(equal(pattern, value)) for value in values)


@policy("https://prometheus.io/docs/prometheus/latest/querying/operators/#aggregation-operators")
def texts_use_labels_of_their_query(environment: Environment) -> Iterator[Problem]:
    """A legend or annotation is blank where its label is not in the series, or was dropped by an aggregation."""
    texts = [(panel.where, "legendFormat", panel.expression, panel.legend) for panel in panels(environment)]
    for where, rule in alerts(environment):
        text = str(rule.get("annotations", {}))
        texts.append((where, "annotations", rule["expr"], text.replace("$labels.", "").replace("$value", "")))
    for where, field, expression, text in texts:
        labels = _result_labels(expression)
        for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", text):
            if name not in labels:
                yield Problem(where, field, name, f"the query's result lacks this label: {one_of(labels)}")


def _result_labels(text: str) -> set[str]:
    """Return the labels of an expression's result."""
    aggregated = _AGGREGATED.match(text)
    if aggregated:
        return {name.strip() for name in (aggregated[1] or "").split(",")} - {""}
    inner = re.search(r"histogram_quantile\(.*?by\s*\(([^)]*)\)", text, re.DOTALL)
    if inner:
        return {name.strip() for name in inner[1].split(",")} - {"le"}
    return {name for metric, _ in _METRIC.findall(text) for name in _labels(metric) or ()} | _TARGET_LABELS


@policy("infra/policies/tables/monitoring.yaml, domains")
def alert_comparisons_can_be_true_and_false(environment: Environment) -> Iterator[Problem]:
    """An alert that compares beyond a metric's range never fires or always does: a share never exceeds 1."""
    for where, rule in alerts(environment):
        for match in COMPARED.finditer(rule["expr"]):
            domain = _domain(_operand(rule["expr"][: match.start()]))
            outcome = _constant_outcome(match[1], number_of(match[2]), *domain) if domain else ""
            if domain and outcome:
                allowed = f"it is {outcome} true: the compared value lies between {domain[0]:g} and {domain[1]:g}"
                yield Problem(where, "expr", match[0].strip(), allowed)


def _operand(text: str) -> str:
    """Return the left operand of a comparison: after the last set operator and inside open parentheses."""
    text = re.split(r"\b(?:and|or|unless)\b(?:\s+on\s*\([^)]*\))?", text)[-1].strip()
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if depth < 0:
            return text[index + 1 :].strip()
    return text


def _domain(operand: str) -> tuple[float, float] | None:
    """Return the least and the largest value of an operand; None where they are not known."""
    if operand.startswith("absent("):
        return 1, 1
    metrics = [metric for metric, _ in _METRIC.findall(operand)]
    if re.search(r"\b(sum|count)(_over_time)?\b", operand) and not re.search(r"\s/\s|histogram_quantile", operand):
        return None
    if re.search(r"\s/\s", operand):
        return (0, 1) if len(set(metrics)) == 1 else None
    rows = table("monitoring")["domains"]
    return next(((row["from"], row["to"]) for row in rows if metrics and re.fullmatch(row["metric"], metrics[0])), None)


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


@policy("infra/monitoring/rules")
def alerts_link_to_their_runbook(environment: Environment) -> Iterator[Problem]:
    """A link to another section shows the person on call the wrong steps."""
    for where, rule in alerts(environment):
        link, anchor = rule["annotations"]["runbook_url"], str(rule["alert"]).lower()
        if link != f"docs/runbooks/alerts.md#{anchor}":
            yield Problem(where, "annotations.runbook_url", link, f"must be docs/runbooks/alerts.md#{anchor}")
