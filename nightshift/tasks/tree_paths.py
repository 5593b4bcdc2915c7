"""From trees to the paths of their leaves, by which their contributions are computed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nightshift.models.contributions import Array, Term, TreePaths
from nightshift.tasks.onnx_export import Forest, Tree

LEAST_SHARE = 1e-9  # of a branch that no training row took, since shares are divided by
MOST_CONDITIONS = 1 << 20  # of all leaves: a file of 20 MB


class Condition(NamedTuple):
    """What a path asks of one input; see `TreePaths`."""

    low: float
    high: float
    missing: bool
    share: float


ANY = Condition(-np.inf, np.inf, True, 1.0)


class Leaf(NamedTuple):
    """A leaf: its conditions by input, and its value."""

    conditions: Mapping[int, Condition]
    value: float


def split_margin(forest: Forest, most: int = MOST_CONDITIONS) -> Sequence[Term]:
    """Return the margin of trees as one term; none where no rows are counted, or their leaves have too many conditions.

    Args:
        forest: the trees.
        most: conditions of all leaves together.
    """
    if any(tree.cover is None for tree in forest.trees):
        return ()
    leaves = [leaf for tree in forest.trees for leaf in _walk(tree, forest.comparison)]
    depth = max((len(leaf.conditions) for leaf in leaves), default=0) or 1
    if depth * len(leaves) > most:
        return ()
    return [Term(_pack(leaves, depth, forest.base), is_logit=forest.link == "Sigmoid")]


def _walk(tree: Tree, comparison: str) -> Iterator[Leaf]:
    """Yield the leaves of a tree."""
    # of float32, the first number that goes right
    with np.errstate(over="ignore"):  # the largest number has none above it but infinity
        bounds = np.nextafter(tree.threshold, np.float32(np.inf)) if comparison == "BRANCH_LEQ" else tree.threshold
    waiting: list[tuple[int, dict[int, Condition]]] = [(0, {})]
    while waiting:
        node, conditions = waiting.pop()
        if tree.left[node] < 0:
            yield Leaf(conditions, float(tree.value[node]))
            continue
        feature, bound = int(tree.feature[node]), float(bounds[node])
        low, high, missing, share = conditions.get(feature, ANY)
        left = _left_share(tree, node)
        goes_left = tree.missing_left is not None and bool(tree.missing_left[node])
        right_side = Condition(max(low, bound), high, missing and not goes_left, share * (1 - left))
        left_side = Condition(low, min(high, bound), missing and goes_left, share * left)
        waiting.append((int(tree.right[node]), conditions | {feature: right_side}))
        waiting.append((int(tree.left[node]), conditions | {feature: left_side}))


def _left_share(tree: Tree, node: int) -> float:
    assert tree.cover is not None
    left, right = float(tree.cover[tree.left[node]]), float(tree.cover[tree.right[node]])
    return left / (left + right) if left + right > 0 else 0.5


def _pack(leaves: Sequence[Leaf], depth: int, base: float) -> TreePaths:
    shape = depth, len(leaves)
    feature, conditions = np.zeros(shape, np.float32), np.empty((4, *shape), np.float32)
    conditions[...] = np.array(ANY, np.float32).reshape(4, 1, 1)
    for number, leaf in enumerate(leaves):
        for row, (position, condition) in enumerate(leaf.conditions.items()):
            feature[row, number], conditions[:, row, number] = position, condition
    low, high, missing, share = conditions
    value = np.array([leaf.value for leaf in leaves], np.float32)
    return TreePaths(feature, low, high, missing, _above_zero(share), value, np.array([base], np.float32))


def _above_zero(share: Array) -> Array:
    return share.clip(np.float32(LEAST_SHARE))
