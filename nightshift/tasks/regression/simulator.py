"""A daily demand to begin with: what shops sell of products, by weekday, trend, season and promotion."""

from datetime import date

import numpy as np
import pandas as pd

from nightshift.config.regression import DemandSimulator
from nightshift.tasks.base import ingestion as base

WEEK = (0.85, 0.8, 0.9, 1.0, 1.25, 1.5, 0.7)  # from Monday: sales as a multiple of a mean day's
UPLIFT = 1.5  # of a promotion
ORIGIN = date(2025, 1, 1)  # on which the trend is 1
YEAR = 365.25
OPENING = 8  # hour, UTC
FLOORS = ("high street", "mall", "suburb")
WORLD, DAY, CORRUPTION = range(3)  # the purpose of a stream of random numbers


class SimulationTask(base.SimulationTask):
    """What shops sell of products each day."""

    columns = ("row_id", "opened_at", "shop", "product", "location", "price", "promotion", "units_sold")

    def day(self, config: DemandSimulator, on: date, labels_due: date | None = None) -> pd.DataFrame:
        world, draw = (
            np.random.default_rng([config.seed, WORLD]),
            np.random.default_rng([config.seed, DAY, on.toordinal()]),
        )
        shop, product = (axis.ravel() for axis in np.indices((config.shops, config.products)))
        usual = world.gamma(6, 0.5, config.shops)[shop] * world.gamma(3, 2.5, config.products)[product]
        price = world.uniform(1, 40, config.products).round(2)[product]
        promotion = draw.random(len(shop)) < config.promotions
        factor = WEEK[on.weekday()] * self._trend(config, on) * draw.gamma(200, 1 / 200, config.shops)[shop]
        mean = usual * factor * np.where(promotion, UPLIFT, 1.0)
        sold = pd.Series(draw.poisson(draw.gamma(20, mean / 20)), dtype="Int64")
        if labels_due is not None and not config.labels_arrived(on, labels_due):
            sold[:] = pd.NA
        frame = pd.DataFrame(
            {
                "row_id": on.toordinal() * len(shop) + np.arange(len(shop)),
                "opened_at": np.datetime64(on, "us") + np.timedelta64(OPENING, "h"),
                "shop": shop,
                "product": product,
                "location": np.array(FLOORS)[shop % len(FLOORS)],
                "price": np.where(promotion, (price * 0.8).round(2), price),
                "promotion": promotion.astype(float),
                "units_sold": sold,
            }
        )
        return self._corrupt(frame, config, on) if config.corrupt_share else frame

    @staticmethod
    def _trend(config: DemandSimulator, on: date) -> float:
        years = (on - ORIGIN).days / YEAR
        season = 1 + 0.1 * np.sin(2 * np.pi * years)
        return float((1 + config.yearly_growth) ** years * season * (config.volume_factor if config.drifts(on) else 1))

    @staticmethod
    def _corrupt(frame: pd.DataFrame, config: DemandSimulator, on: date) -> pd.DataFrame:
        """Return rows of which some have no price."""
        spoiled = np.random.default_rng([config.seed, CORRUPTION, on.toordinal()]).random(len(frame))
        return frame.assign(price=frame["price"].mask(spoiled < config.corrupt_share))
