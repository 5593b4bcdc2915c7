"""PromQL as a tree: the series, calls, groupings and comparisons of a query."""

import functools
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import promql_parser
from promql_parser import (
    AggModifierType,
    AggregateExpr,
    BinaryExpr,
    Call,
    Expr,
    NumberLiteral,
    ParenExpr,
    VectorSelector,
)

Node = TypeVar("Node")
INTERVAL = "$__rate_interval"
COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}
RATES = ("rate", "irate", "increase")
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
# a text in quotes, or one of Grafana's variables outside
_VARIABLE = re.compile(r'"[^"]*"|\$\w+')


@functools.cache
def validate(text: str) -> tuple[Expr, str]:
    """Return the tree of a query and what is wrong with it; of an invalid one the number 0.

    Grafana's variables stand for an hour or for 1.
    """
    filled = _VARIABLE.sub(lambda match: match[0] if match[0][0] == '"' else "1", text.replace(INTERVAL, "1h"))
    try:
        return promql_parser.parse(filled), ""
    except ValueError as error:
        return promql_parser.parse("0"), str(error)


def parse(text: str) -> Expr:
    """Return the tree of a query; see `validate`."""
    return validate(text)[0]


def nodes(tree: Expr, kind: type[Node]) -> list[Node]:
    """Return the parts of a kind, from left to right, the outer ones first."""
    parts: list[Any] = []
    promql_parser.walk(tree, parts.append)  # an answer other than None would end the walk
    return [part for part in parts if isinstance(part, kind)]


def metrics(tree: Expr) -> list[str]:
    """Return the names of the series, from left to right."""
    return [selector.name for selector in nodes(tree, VectorSelector) if selector.name]


def calls(tree: Expr, *names: str) -> list[Call]:
    """Return the calls of some functions."""
    return [call for call in nodes(tree, Call) if call.func.name in names]


def operations(tree: Expr, *operators: str) -> list[BinaryExpr]:
    """Return the binary operations with some operators."""
    return [node for node in nodes(tree, BinaryExpr) if str(node.op) in operators]


def comparisons(tree: Expr) -> Iterator[tuple[BinaryExpr, float]]:
    """Yield the comparisons with a number on the right, with the number."""
    for node in operations(tree, *COMPARISONS):
        number = constant(node.rhs)
        if number is not None:
            yield node, number


def constant(tree: Expr) -> float | None:
    """Return the value of an expression of numbers, None where it has series or calls."""
    tree = strip(tree)
    if isinstance(tree, NumberLiteral):
        return tree.val
    if not isinstance(tree, BinaryExpr) or str(tree.op) not in _ARITHMETIC:
        return None
    left, right = constant(tree.lhs), constant(tree.rhs)
    return None if left is None or right is None else _ARITHMETIC[str(tree.op)](left, right)


def strip(tree: Expr) -> Expr:
    """Return what stands within the outer parentheses."""
    return strip(tree.expr) if isinstance(tree, ParenExpr) else tree


def grouping(tree: Expr) -> frozenset[str] | None:
    """Return the labels that an aggregation leaves in the result, None where they are those of the series."""
    tree = strip(tree)
    if isinstance(tree, BinaryExpr):
        return grouping(tree.rhs if constant(tree.lhs) is not None else tree.lhs)
    if isinstance(tree, Call) and tree.func.name == "histogram_quantile":
        labels = grouping(tree.args[1])
        return None if labels is None else labels - {"le"}
    if not isinstance(tree, AggregateExpr) or str(tree.op) in {"topk", "bottomk"}:
        return None
    if tree.modifier is None:
        return frozenset()
    return frozenset(tree.modifier.labels) if tree.modifier.type == AggModifierType.By else None
