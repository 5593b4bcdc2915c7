"""Series that queries choose: metrics and labels that somebody exposes, and comparisons that are sometimes true."""

import re
from collections.abc import Iterator

from infra.policies.model import Environment, Json, Problem, policy, table
from infra.policies.queries import COMPARED, alerts, expressions, number_of, panels

_TABLE = "infra/policies/tables/monitoring.yaml, series"
_METRIC = re.compile(r"\b(nightshift_\w+|DCGM_\w+|process_\w+|kube_\w+|vllm:\w+)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
# what Prometheus adds to every series, and histograms to their buckets
_OF_TARGETS = {"instance", "job", "namespace", "pod", "service", "endpoint", "container", "node", "le"}
_GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_SUMMED = re.compile(r"^\s*\(*\s*(?:sum|max|min|avg|count)\s*(?:by\s*\(([^)]*)\)|\()")


def _labels(metric: str) -> Json | None:
    """Return the labels of a metric with their values, where those are few; None where nobody exposes it."""
    rows = table("monitoring")["series"]
    return next((row["labels"] for row in rows if re.fullmatch(row["metric"], metric)), None)


@policy(_TABLE)
def queries_choose_series_that_are_exposed(environment: Environment) -> Iterator[Problem]:
    """A metric, label or value that nobody exposes makes a panel empty and an alert silent, and is no error."""
    for where, text in expressions(environment):
        chosen = [(metric, _labels(metric), matchers) for metric, matchers in _METRIC.findall(text)]
        for metric, labels, matchers in chosen:
            if labels is None:
                yield Problem(where, "expr", metric, "nobody exposes it")
                continue
            for name, sign, wanted in _MATCHER.findall(matchers):
                if name not in labels.keys() | _OF_TARGETS:
                    yield Problem(where, f"expr {metric}", name, f"it has {', '.join(labels)}")
                elif not wanted.startswith("$") and not _fits(labels.get(name), sign, wanted):
                    allowed = f"{name} is one of {', '.join(labels[name])}"
                    yield Problem(where, f"expr {metric}", f'{name}{sign}"{wanted}"', allowed)
        known = {name for _, labels, _ in chosen for name in labels or ()} | _OF_TARGETS
        for name in {name.strip() for names in _GROUPED.findall(text) for name in names.split(",")} - known - {""}:
            yield Problem(where, "expr by", name, f"series have {', '.join(sorted(known - _OF_TARGETS))}")


def _fits(values: list[str] | None, sign: str, wanted: str) -> bool:
    """Say whether a matcher chooses some of a label's values; one with any number of values has every one."""
    equal = re.fullmatch if "~" in sign else str.__eq__
    return not values or any(bool(equal(wanted, value)) for value in values)


@policy("https://prometheus.io/docs/prometheus/latest/querying/operators/#aggregation-operators")
def texts_name_labels_that_are_left(environment: Environment) -> Iterator[Problem]:
    """A legend or an annotation shows nothing for a label that the series lacks, or that `sum by` has dropped."""
    shown = [(panel.where, "legendFormat", panel.expression, panel.legend) for panel in panels(environment)]
    for where, rule in alerts(environment):
        text = str(rule.get("annotations", {}))
        shown.append((where, "annotations", rule["expr"], text.replace("$labels.", "").replace("$value", "")))
    for where, field, expression, text in shown:
        left = _left(expression)
        for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", text):
            if name not in left:
                yield Problem(where, field, name, f"the query leaves {', '.join(sorted(left)) or 'none'}")


def _left(text: str) -> set[str]:
    summed = _SUMMED.match(text)
    if summed:
        return {name.strip() for name in (summed[1] or "").split(",")} - {""}
    inner = re.search(r"histogram_quantile\(.*?by\s*\(([^)]*)\)", text, re.DOTALL)
    if inner:
        return {name.strip() for name in inner[1].split(",")} - {"le"}
    return {name for metric, _ in _METRIC.findall(text) for name in _labels(metric) or ()} | _OF_TARGETS


@policy("infra/policies/tables/monitoring.yaml, domains")
def comparisons_are_true_at_times(environment: Environment) -> Iterator[Problem]:
    """A share never exceeds 1 and absent() is 1 or nothing: an alert beyond that never fires, or always does."""
    for where, rule in alerts(environment):
        for match in COMPARED.finditer(rule["expr"]):
            domain = _domain(_operand(rule["expr"][: match.start()]))
            if domain and (says := _is_constant(match[1], number_of(match[2]), *domain)):
                allowed = f"it is {says} true: what is compared lies between {domain[0]:g} and {domain[1]:g}"
                yield Problem(where, "expr", match[0].strip(), allowed)


def _operand(text: str) -> str:
    """Return what stands at the left of a comparison: after the last set operator and inside of open brackets."""
    text = re.split(r"\b(?:and|or|unless)\b(?:\s+on\s*\([^)]*\))?", text)[-1].strip()
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth < 0:
            return text[at + 1 :].strip()
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


def _is_constant(sign: str, number: float, least: float, most: float) -> str:
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
def alerts_lead_to_their_own_runbook(environment: Environment) -> Iterator[Problem]:
    """An alert is called what its part of the page is called, which says what to do."""
    for where, rule in alerts(environment):
        link, anchor = rule["annotations"]["runbook_url"], str(rule["alert"]).lower()
        if link != f"docs/runbooks/alerts.md#{anchor}":
            yield Problem(where, "annotations.runbook_url", link, f"it is docs/runbooks/alerts.md#{anchor}")
