"""Simulated texts for a first run: a source per topic, without labels."""

from datetime import date

import pandas as pd

from nightshift.config.texts import TextSimulator
from nightshift.tasks.base import ingestion as base
from nightshift.tasks.texts import simulator


class SimulationTask(base.SimulationTask):
    """The texts of `nightshift.tasks.texts.simulator`, with their class as source."""

    columns = ("text_id", "time", "text", "author", "source")

    def day(self, config: TextSimulator, on: date, labels_due: date | None = None) -> pd.DataFrame:
        return simulator.SimulationTask().day(config, on).rename(columns={"label": "source"})
