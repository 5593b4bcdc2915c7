"""Which inputs are most often among the reasons of a day's highest scores."""

import json
from collections import Counter
from typing import TYPE_CHECKING

from nightshift.contracts.section import Row, TableBlock, TableColumn

if TYPE_CHECKING:
    import pandas as pd

HIGHEST = 100  # scores
SHOWN = 10  # inputs
COLUMNS = [
    TableColumn(title="Input"),
    TableColumn(title="Among the reasons of", format="percent", has_bars=True),
    TableColumn(title="Raises the score", format="percent"),
]


def build(scored: "pd.DataFrame") -> TableBlock:
    """Return a table of the inputs among the reasons of the highest scores, the most frequent first.

    Args:
        scored: `score`, and `reasons` in JSON, a row each.
    """
    highest = scored.nlargest(HIGHEST, "score")
    reasons = [reason for text in highest["reasons"] for reason in json.loads(text)]
    counts = Counter(reason["input"] for reason in reasons)
    raising = Counter(reason["input"] for reason in reasons if reason["contribution"] > 0)
    rows = [Row(cells=[name, count / len(highest), raising[name] / count]) for name, count in counts.most_common(SHOWN)]
    return TableBlock(title=f"Most frequent reasons of the {len(highest)} highest scores", columns=COLUMNS, rows=rows)
