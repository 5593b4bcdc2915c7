"""Shops whose sales follow the weekday and promotions."""

from datetime import date

import numpy as np
import pandas as pd

from nightshift.config.source import Simulator

COLUMNS = ("id", "opened", "shop", "promo", "sold")
SHOPS = 60
WEEK = (0.8, 0.8, 0.9, 1.0, 1.3, 1.6, 0.6)


def day(config: Simulator, on: date, labels_due: date | None = None) -> pd.DataFrame:
    shops, draw = np.arange(SHOPS), np.random.default_rng([config.seed, on.toordinal()])
    usual = np.random.default_rng(config.seed).gamma(4, 5, SHOPS)
    promo = draw.random(SHOPS) < 0.2
    factor = WEEK[on.weekday()] * (config.volume_factor if config.drifts(on) else 1)
    sold = pd.Series(draw.poisson(usual * factor * np.where(promo, 1.5, 1)), dtype="Int64")
    if labels_due is not None and not config.labels_arrived(on, labels_due):
        sold[:] = pd.NA
    opened = np.datetime64(on, "us") + (8 * 3600 + shops).astype("timedelta64[s]")
    ids = on.toordinal() * SHOPS + shops
    return pd.DataFrame({"id": ids, "opened": opened, "shop": shops, "promo": promo * 1.0, "sold": sold})
