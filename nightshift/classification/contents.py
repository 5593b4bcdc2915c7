"""Images or texts as ingestion has taken them in, for whoever has to ask a server something."""

from nightshift import storage
from nightshift.contracts import tables
from nightshift.errors import UserError


def newest(lake: str, use_case: str, column: str, most: int) -> list[bytes]:
    """Return what some rows of the newest day in the lake hold, texts in UTF-8.

    Args:
        lake: root of the tables.
        use_case: its name.
        column: `image` or `text`.
        most: how many rows.

    Raises:
        UserError: when there is none.
    """
    folder = storage.join(lake, use_case, "events")
    for day in reversed(storage.names(folder)):
        for name in storage.names(storage.join(folder, day)):
            part = tables.find_partition(storage.join(folder, day, name)) if name.endswith(".parquet") else None
            if part and part.rows:
                batch = next(iter(storage.read_batches(part.uri, [column], most)))
                return [each.encode() if isinstance(each, str) else bytes(each) for each in batch[column]]
    raise UserError(f"{folder} has no {column} to ask the endpoint about; run ingestion of a day that has some")
