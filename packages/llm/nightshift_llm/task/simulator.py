"""Simulated texts for a first run: a source per topic, without labels."""

from datetime import date

import pandas as pd

from nightshift.config.texts import TextSimulator
from nightshift.tasks.texts import simulator

COLUMNS: tuple[str, ...] = ("text_id", "time", "text", "author", "source")


def day(config: TextSimulator, on: date, _: date | None = None) -> pd.DataFrame:
    """Make one day's texts, in order of time; see `nightshift.tasks.texts.simulator`."""
    return simulator.day(config, on).rename(columns={"label": "source"})
