"""Evidently's interactive report on the same rows, for people.

It sees a sample, goes by the Wasserstein distance alone and counts the score among the columns, so its own
share of drifted columns may differ from the verdict's, which does not read it.
"""

import html
import os
import re

import numpy as np
import pandas as pd

from nightshift.config.policy import DriftLimits
from nightshift.runtime.printable import printable

ROWS = 5000  # rows of each side: enough for its histograms, and the page stays small
DATA = re.compile(r"^ *var \w+ = \{.*\};$", re.MULTILINE)  # a line of the page's script: Evidently does not escape it
ESCAPES = {
    ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"
}  # JSON with these ends no element and no line


def render(reference: pd.DataFrame, current: pd.DataFrame, numeric: list[str], limits: DriftLimits) -> str:
    """Return one self-contained HTML page.

    Args:
        reference: rows that the model carries.
        current: the newest rows, with the same columns.
        numeric: columns that are numbers; the others are categories.
        limits: effect sizes from which a column is marked.
    """
    # Evidently reads this when it would report its use, so it has to be there before anything else happens
    os.environ["DO_NOT_TRACK"] = "1"
    from evidently import DataDefinition, Dataset, Report
    from evidently.presets import DataDriftPreset

    sides = [_as_text(_sample(side), numeric) for side in (reference, current)]
    # it cannot draw a column that has no value on one of the sides
    columns = [name for name in reference.columns if all(side[name].notna().any() for side in sides)]
    definition = DataDefinition(
        numerical_columns=[name for name in columns if name in numeric],
        categorical_columns=[name for name in columns if name not in numeric],
    )
    before, now = (Dataset.from_pandas(side[columns], definition) for side in sides)
    preset = DataDriftPreset(
        drift_share=limits.max_drifted_share,
        num_method="wasserstein",
        num_threshold=limits.wasserstein,
        cat_method="psi",
        cat_threshold=limits.psi,
    )
    # it correlates all columns, and a constant one has no correlation
    with np.errstate(divide="ignore", invalid="ignore"):
        page = str(Report([preset], include_tests=False).run(now, before).get_html_str(as_iframe=False))
    inert, count = DATA.subn(lambda line: line[0].translate(ESCAPES), page, count=2)
    assert count == 2, "Evidently writes its data otherwise than this version does"
    return inert


def _as_text(frame: pd.DataFrame, numeric: list[str]) -> pd.DataFrame:
    """Return a frame whose categories Evidently's charts show as they are: Plotly reads tags and entities in labels."""
    texts = [name for name in frame.columns if name not in numeric]
    return frame.assign(**{name: frame[name].map(_escape, na_action="ignore") for name in texts})


def _escape(value: object) -> str:
    return html.escape(printable(str(value)), quote=False)


def _sample(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sample(min(len(frame), ROWS), random_state=0).replace([np.inf, -np.inf], np.nan)
