"""The rules for pairs: an image that can be decoded, and a report that can be read."""

from typing import TYPE_CHECKING

import PIL

from nightshift.tasks.base import ingestion as base
from nightshift.tasks.texts.ingestion import find_faults
from nightshift_image_text import pixels
from nightshift_image_text.config import ImageTextConfig

if TYPE_CHECKING:
    import pandas as pd

RULES = {"classes", "min_side", "max_pixels", "max_characters", "label_separator"}


class IngestionTask(base.IngestionTask):
    """The rules for images and their reports; a day's normal findings may be reported in the same words."""

    shared_contents = frozenset({"report"})

    def faults(self, typed: "pd.DataFrame", config: ImageTextConfig) -> "pd.Series":
        task = config.task
        images = typed["image"].map(lambda content: pixels.find_fault(content, task)).astype(object)
        reports = "report_" + find_faults(typed["report"], task.max_characters)
        return images.fillna(reports).fillna(find_conflicts(typed))

    def rules(self, config: ImageTextConfig) -> dict[str, object]:
        return config.task.model_dump(include=RULES) | {"pillow": PIL.__version__}


def find_conflicts(typed: "pd.DataFrame") -> "pd.Series":
    """Return `two_reports` for each row whose study has another report on an earlier row of its day, or null."""
    import pandas as pd

    faults = pd.Series(None, typed.index, dtype=object)
    if "study" not in typed:
        return faults
    known = typed[["study", "report"]].notna().all(axis=1)
    days = typed.loc[known, "event_time"].dt.floor("D")
    first = typed.loc[known].groupby([days, "study"])["report"].transform("first")
    faults[first.index[first != typed.loc[known, "report"]]] = "two_reports"
    return faults
