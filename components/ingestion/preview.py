"""The events of some days as a run would ingest them, read without a lake: for what is measured before a first run."""

from datetime import date

import pandas as pd

from components.ingestion import core, sources
from components.ingestion.sources.coverage import require_days
from nightshift.config import Config
from nightshift.data.splits import Days, plan


def read_events(data: str, config: Config, days: Days, last: date) -> pd.DataFrame:
    """Return the good events of some days, under canonical names and in order of time.

    Args:
        data: `simulator`, or the URI of a folder, a database, a catalog or brokers.
        config: the use case.
        days: the days.
        last: the logical date, which says whose labels are due.

    Raises:
        UserError: when days are missing, or rows cannot be read.
        UnavailableError: when a store does not answer.
    """
    due = plan(config, last).labels_due
    source = sources.connect(data, config, due)
    require_days(source, config, days)
    frames = (core.split(source.read(day).load(), config, day, day <= due).good for day in days if source.has(day))
    return pd.concat(list(frames), ignore_index=True)
