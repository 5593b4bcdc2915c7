"""What the columns of a table are for whose label is one class of several."""

from collections.abc import Sequence

import pandas as pd

from nightshift.data.guessing import leaks
from nightshift.data.guessing.profiles import ColumnProfile

SHOWN = 8  # classes


def describe(column: ColumnProfile, classes: Sequence[str]) -> str:
    """Return a sentence on the label."""
    listed = ", ".join(classes[:SHOWN]) + (f" and {len(classes) - SHOWN} more" * (len(classes) > SHOWN))
    return (
        f"{column.name!r} is what is predicted: one of {len(classes)} classes, {listed}. --positive VALUE says which "
        "of them count as positive, if the question is yes or no."
    )


def find_leak(column: ColumnProfile, label: pd.Series, event_time: pd.Series, classes: Sequence[str]) -> str:
    """Return why a column may be known only after the label, a class; empty where nothing says so.

    Args:
        column: no id, and neither the event's time nor its label.
        label: numbers of classes as float64, NaN where it is not known.
        event_time: naive UTC.
        classes: their names.
    """
    for number, name in enumerate(classes):
        outcome = (label == number).astype(float).mask(label.isna())
        if reason := leaks.find_leak(column, outcome, event_time):
            return reason if column.kind == "time" else f"{reason}, where class {name!r} is the positive one"
    return ""
