"""Shops whose sales follow the weekday and promotions."""

import numpy as np
import pandas as pd

from nightshift.tasks.base import ingestion as base

WEEK = (0.8, 0.8, 0.9, 1.0, 1.3, 1.6, 0.6)


class SimulationTask(base.SimulationTask):
    columns = ("id", "opened", "shop", "promo", "sold")

    def day(self, config, on, labels_due=None):
        shops, draw = np.arange(config.shops), np.random.default_rng([config.seed, on.toordinal()])
        usual, promo = np.random.default_rng(config.seed).gamma(4, 5, config.shops), draw.random(config.shops) < 0.2
        factor = WEEK[on.weekday()] * (config.volume_factor if config.drifts(on) else 1)
        sold = pd.Series(draw.poisson(usual * factor * np.where(promo, 1.5, 1)), dtype="Int64")
        if labels_due is not None and not config.labels_arrived(on, labels_due):
            sold[:] = pd.NA
        opened = np.datetime64(on, "us") + (8 * 3600 + shops).astype("timedelta64[s]")
        rows = {"id": on.toordinal() * config.shops + shops, "opened": opened, "shop": shops, "promo": promo * 1.0}
        return pd.DataFrame(rows | {"sold": sold})
