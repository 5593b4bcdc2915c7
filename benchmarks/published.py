"""The published transactions of the Fraud Detection Handbook, reproduced draw by draw.

1,754,155 rows, 2018-04-01 .. 2018-09-30, under the published column names. The draws are sequential by nature (NumPy's
legacy generator and Python's `random`, interleaved), so no day can be made alone; `nightshift.tasks.tabular` can.
"""

import random
from array import array

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.tasks.tabular.world import Floats, Ints, World, assemble

CUSTOMERS, TERMINALS, DAYS, RADIUS = 5000, 10_000, 183, 5.0
FIRST_DAY = np.datetime64("2018-04-01", "us")
DAY = 86_400  # seconds


def transactions() -> pd.DataFrame:
    """Return the published rows in order of time.

    Returns:
        TRANSACTION_ID int64 (rank by time; rows of the same second in order of customers), TX_DATETIME
        datetime64[us], CUSTOMER_ID, TERMINAL_ID int64, TX_AMOUNT float64, TX_TIME_SECONDS, TX_TIME_DAYS int64
        (since 2018-04-01), TX_FRAUD, TX_FRAUD_SCENARIO int8.
    """
    customer, second, amount, terminal = _transactions(_world())
    order = np.argsort(second, kind="stable")
    customer, second, amount, terminal = customer[order], second[order], amount[order], terminal[order]
    amount, scenario = _defraud(customer, second // DAY, amount, terminal)
    return pd.DataFrame(
        {
            "TRANSACTION_ID": np.arange(len(second)),
            "TX_DATETIME": FIRST_DAY + second.astype("timedelta64[s]"),
            "CUSTOMER_ID": customer,
            "TERMINAL_ID": terminal,
            "TX_AMOUNT": amount,
            "TX_TIME_SECONDS": second,
            "TX_TIME_DAYS": second // DAY,
            "TX_FRAUD": (scenario > 0).astype(np.int8),
            "TX_FRAUD_SCENARIO": scenario,
        }
    )


def _world() -> World:
    customers = np.random.RandomState(0).random_sample((CUSTOMERS, 4))
    terminals = np.random.RandomState(1).random_sample((TERMINALS, 2))
    return assemble(customers, terminals, RADIUS)


def _transactions(world: World) -> tuple[Ints, Ints, Floats, Ints]:
    """Return customer, second since the first day, amount and terminal of every row."""
    seconds, amounts, terminals = array("q"), array("d"), array("q")
    counts = []
    for customer, reachable in enumerate(world.reachable):
        before = len(seconds)
        if len(reachable):
            mean, rate = float(world.mean_amount[customer]), float(world.rate[customer])
            _spend(customer, mean, rate, reachable.tolist(), (seconds, amounts, terminals))
        counts.append(len(seconds) - before)
    customer_of_row = np.repeat(np.arange(CUSTOMERS), counts)
    return customer_of_row, np.array(seconds), np.round(np.array(amounts), 2), np.array(terminals)


def _spend(
    customer: int, mean: float, rate: float, reachable: list[int], rows: "tuple[array[int], array[float], array[int]]"
) -> None:
    """Append one customer's seconds, amounts and terminals to `rows`."""
    draws = np.random.RandomState(customer)
    poisson, gauss, uniform = draws.poisson, draws.standard_normal, draws.random_sample
    choose = random.Random(customer).choice  # the published draws
    seconds, amounts, terminals = rows
    for day in range(DAYS):
        for _ in range(poisson(rate)):
            second = int(43_200 + 20_000 * gauss())
            if not 0 < second < DAY:
                continue
            amount = mean + mean / 2 * gauss()
            seconds.append(day * DAY + second)
            amounts.append(amount if amount >= 0 else 2 * mean * uniform())
            terminals.append(choose(reachable))


def _defraud(customer: Ints, day: Ints, amount: Floats, terminal: Ints) -> tuple[Floats, npt.NDArray[np.int8]]:
    """Return the amounts after, and the scenario of, every fraud; later scenarios overwrite earlier ones."""
    scenario = (amount > 220).astype(np.int8)
    amount = amount.copy()
    starts = np.searchsorted(day, np.arange(DAYS + 28))
    for first in range(DAYS - 1):
        rows = slice(starts[first], starts[first + 28])
        chosen = np.random.RandomState(first).choice(TERMINALS, 2, replace=False)
        scenario[rows][np.isin(terminal[rows], chosen)] = 2
    for first in range(DAYS - 1):
        chosen = np.random.RandomState(first).choice(CUSTOMERS, 3, replace=False)
        positions = starts[first] + np.flatnonzero(np.isin(customer[starts[first] : starts[first + 14]], chosen))
        hit = random.Random(first).sample(positions.tolist(), len(positions) // 3)
        amount[hit] *= 5
        scenario[hit] = 3
    return amount, scenario
