"""Evidently's interactive report on the same rows, for people.

It sees a sample, goes by the Wasserstein distance alone and counts the score among the columns, so its own
share of drifted columns may differ from the verdict's, which does not read it.
"""

import os

import numpy as np
import pandas as pd

from components.common.config.policy import Drift

ROWS = 5000  # of each side: enough for its histograms, and the page stays small


def render(reference: pd.DataFrame, current: pd.DataFrame, numeric: list[str], limits: Drift) -> str:
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

    sides = [_sample(reference), _sample(current)]
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
        return str(Report([preset], include_tests=False).run(now, before).get_html_str(as_iframe=False))


def _sample(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sample(min(len(frame), ROWS), random_state=0).replace([np.inf, -np.inf], np.nan)
