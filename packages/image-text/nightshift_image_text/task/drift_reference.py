"""What drift compares of pairs beside what it compares of any items: scanners, sites and the words of reports."""

import pandas as pd

from nightshift.items.shards import ItemTable
from nightshift.tasks.items.references import KEYS
from nightshift_image_text.task.subgroups import COLUMNS
from nightshift_image_text.task.views import TOKENS


def add_parts(described: pd.DataFrame, items: ItemTable) -> pd.DataFrame:
    """Return described rows with their scanner and site, where there are columns of them, and their tokens as `words`.

    Args:
        described: `KEYS` and what else drift compares, n rows of the items.
        items: whose rows have `scanner` and `site`, and whose shards have `tokens`.
    """
    columns = [column for column in COLUMNS if column in items.rows]
    numbered = items.rows[[*KEYS, *columns]].assign(row=items.rows.index)
    joined = described[KEYS].merge(numbered, on=KEYS, how="left", validate="one_to_one")
    tokens = items.shards.select(TOKENS).take(joined["row"].to_numpy())
    return described.assign(**{column: joined[column] for column in columns}, words=pd.Series([*tokens], dtype=object))
