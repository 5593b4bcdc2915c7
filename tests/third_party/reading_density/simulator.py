"""A sensor whose temperature and pressure go together; now and then it sends no pressure."""

import numpy as np
import pandas as pd

from nightshift.tasks.base import ingestion as base

READINGS, BROKEN = 300, 7  # a day, and which of them


class SimulationTask(base.SimulationTask):
    columns = ("id", "taken", "temperature", "pressure")

    def day(self, config, on, _=None):
        draw, numbers = np.random.default_rng([config.seed, on.toordinal()]), np.arange(READINGS)
        temperature, pressure = draw.multivariate_normal([60, 900], [[25, 90], [90, 400]], READINGS).T
        taken = np.datetime64(on, "us") + (numbers * 60).astype("timedelta64[s]")
        pressure[BROKEN] = np.nan
        rows = {"id": on.toordinal() * READINGS + numbers, "taken": taken}
        return pd.DataFrame(rows | {"temperature": temperature, "pressure": pressure})
