"""Labels of rows with any number of classes: a JSON list of names, so that a table has one column of them."""

import json
from collections.abc import Iterable, Sequence

import numpy as np

from nightshift.items.metrics import Flags, Scores, predict


def encode(names: Iterable[str]) -> str:
    """Return labels as a text."""
    return json.dumps([*names], ensure_ascii=False, separators=(",", ":"))


def decode(texts: Iterable[str | None], classes: Sequence[str]) -> Flags:
    """Return which classes are among the labels of each text, (n, classes): none where that is null."""
    numbers = {name: number for number, name in enumerate(classes)}
    labels = [json.loads(text) if isinstance(text, str) else [] for text in texts]
    flags = np.zeros((len(labels), len(classes)), bool)
    for row, names in enumerate(labels):
        flags[row, [numbers[name] for name in names if name in numbers]] = True
    return flags


def name_predictions(scores: Scores, classes: Sequence[str], thresholds: Sequence[float]) -> list[str]:
    """Return the class that each row is taken for or, by thresholds, its labels as a text."""
    predicted = predict(scores, thresholds)
    if predicted.ndim == 1:
        return [classes[number] for number in predicted.tolist()]
    return [encode(classes[number] for number in np.flatnonzero(row).tolist()) for row in predicted]
