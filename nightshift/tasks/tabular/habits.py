"""Customers with habits, which thieves do not know: hours of the day, terminals to return to, kinds of goods."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.tasks.tabular.world import Floats, Ints, World

STREAM = 9  # of random numbers, after those of `simulator.py`
DAY, HOUR = 86_400, 3600  # seconds
CATEGORIES = np.array(
    ["books", "clothes", "fuel", "games", "health", "hotels", "music", "pets", "sports", "tickets", "tools", "toys"]
)
HOURS = (6.0, 23.0)  # at which customers usually buy
HOUR_DEVIATION = 1.5
USUAL_TERMINALS, USUAL_SHARE = 5, 0.7  # to which a customer returns, and for which share of the purchases
PRICES = (0.2, 1.0)  # of a category's goods, as a multiple of a customer's usual amount
BURST = 1800  # seconds in which a thief spends a day's money


@dataclass(frozen=True)
class Habits:
    """What customers are used to.

    Attributes:
        hour: of the day, float64 (customers,).
        category: of the terminals' goods, int64 (terminals,).
        price: of a category's goods, float64 (categories,).
    """

    hour: Floats
    category: Ints
    price: Floats


@lru_cache(maxsize=4)
def make_habits(seed: int, customers: int, terminals: int) -> Habits:
    """Draw the habits of a seed's world; remembered, since every day of a run has the same."""
    rng = np.random.default_rng([seed, STREAM])
    hour = rng.uniform(*HOURS, customers)
    return Habits(hour, rng.integers(0, len(CATEGORIES), terminals), rng.uniform(*PRICES, len(CATEGORIES)))


def follow(frame: pd.DataFrame, habits: Habits, world: World, rng: np.random.Generator) -> pd.DataFrame:
    """Return a day's purchases at their customers' hours and terminals, with a column `category`."""
    customer = frame["customer_id"].to_numpy()
    second = habits.hour[customer] * HOUR + rng.normal(0, HOUR_DEVIATION * HOUR, len(frame))
    is_usual, choice = rng.random((2, len(frame)))
    terminal = np.where(is_usual < USUAL_SHARE, _choose_usual(world, customer, choice), frame["terminal_id"])
    category = habits.category[terminal]
    return frame.assign(
        time=second.astype(np.int64) % DAY,
        terminal_id=terminal,
        amount=(frame["amount"] * habits.price[category]).round(2),
        category=CATEGORIES[category],
    )


def break_off(
    frame: pd.DataFrame, stolen: npt.NDArray[np.bool_], habits: Habits, rng: np.random.Generator
) -> pd.DataFrame:
    """Return a day's purchases, those with stolen cards anywhere, at any hour, and one soon after the other."""
    begin = rng.integers(0, DAY - BURST, len(habits.hour))[frame["customer_id"]]
    second, terminal = begin + rng.integers(0, BURST, len(frame)), rng.integers(0, len(habits.category), len(frame))
    return frame.assign(
        time=np.where(stolen, second, frame["time"]),
        terminal_id=(moved := np.where(stolen, terminal, frame["terminal_id"])),
        category=CATEGORIES[habits.category[moved]],
    )


def _choose_usual(world: World, customer: Ints, choice: Floats) -> Ints:
    """Return one of the few terminals that each purchase's customer returns to, by a draw in [0, 1)."""
    counts = np.array([len(terminals) for terminals in world.reachable])
    first = (np.cumsum(counts) - counts)[customer]
    usual = np.minimum(counts, USUAL_TERMINALS)[customer]
    chosen: Ints = np.concatenate(world.reachable)[first + (choice * usual).astype(np.int64)]
    return chosen
