"""Card transactions to begin with: simulated, labeled, free of license questions.

It draws from the distributions of the Fraud Detection Handbook, but keys every stream of random numbers by seed,
purpose and day, so that any day can be made alone and equals that day of any longer run.
"""

from collections.abc import Iterable
from datetime import date

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift import storage
from nightshift.config.tabular import TabularSimulator
from nightshift.tasks.base import ingestion as base
from nightshift.tasks.tabular import habits
from nightshift.tasks.tabular.world import World, make_world

# the purpose of a stream of random numbers; 0 is the world's, 9 that of its habits
SPENDING, TERMINAL_FRAUD, CUSTOMER_FRAUD, STOLEN, NIGHT, CORRUPTION, REPLACED, COPIED = range(1, 9)
FOLLOWED, BROKEN = 10, 11
DAY, NIGHT_END = 86_400, 7 * 3600  # seconds
LARGE = 220  # amounts above are fraud
# from Monday: transactions as a multiple of a day without a pattern, amounts likewise, and by how much days start later
WEEKDAYS = ((1.1, 1, 0), (1.1, 1, 0), (1.1, 1, 0), (1.15, 1, 0), (1.3, 1.05, 0), (0.9, 1.1, 5400), (0.35, 1.05, 7200))
SMALL = (1.0, 20.0)  # what copied cards are tried with
# share of terminals and customers newly compromised a day, and for how many days they stay so
TERMINAL_SHARE, TERMINAL_DAYS = 2e-4, 28
CUSTOMER_SHARE, CUSTOMER_DAYS = 6e-4, 14
IDS_A_DAY = 10**9  # more rows than any day has, so that ids differ between days
# role of a config's `columns` -> the simulated column
ROLES = {
    "event_id": "transaction_id",
    "event_time": "time",
    "customer": "customer_id",
    "terminal": "terminal_id",
    "amount": "amount",
    "label": "fraud",
}
CATEGORY = "category"  # a further column of customers with habits


class SimulationTask(base.SimulationTask):
    """Card transactions, some of them fraud."""

    columns = tuple(ROLES.values())

    def list_columns(self, config: TabularSimulator) -> tuple[str, ...]:
        return (*self.columns, CATEGORY) if config.habits else self.columns

    def day(self, config: TabularSimulator, on: date, labels_due: date | None = None) -> pd.DataFrame:
        world = make_world(config.seed, config.customers, config.terminals)
        frame = _spend(config, world, on)
        if config.habits:
            frame = habits.follow(frame, _habits(config), world, _rng(config, FOLLOWED, on.toordinal()))
        frame = _defraud(config, on, frame)
        frame = frame.sort_values("time", kind="stable", ignore_index=True)
        frame.insert(0, "transaction_id", on.toordinal() * IDS_A_DAY + np.arange(len(frame)))
        frame["time"] = np.datetime64(on, "us") + frame["time"].to_numpy().astype("timedelta64[s]")
        if labels_due is not None and not config.labels_arrived(on, labels_due):
            frame["fraud"] = pd.array([None] * len(frame), dtype="Int8")
        return _corrupt(frame, config, on) if config.corrupt_share else frame


def write_days(folder: str, config: TabularSimulator, days: Iterable[date], labels_due: date | None = None) -> None:
    """Write one Parquet file a day, named `<day>.parquet`, below a folder's URI."""
    for on in days:
        storage.write_frame(storage.join(folder, f"{on}.parquet"), SimulationTask().day(config, on, labels_due))


def _habits(config: TabularSimulator) -> habits.Habits:
    return habits.make_habits(config.seed, config.customers, config.terminals)


def _rng(config: TabularSimulator, stream: int, ordinal: int) -> np.random.Generator:
    return np.random.default_rng([config.seed, stream, ordinal])


def _spend(config: TabularSimulator, world: World, on: date) -> pd.DataFrame:
    """Draw the day's transactions: second of the day, customer, terminal, amount."""
    rng = _rng(config, SPENDING, on.toordinal())
    usual, dearer, later = WEEKDAYS[on.weekday()] if config.weekly_pattern else (1.0, 1.0, 0)
    volume = usual * (config.volume_factor if config.drifts(on) else 1.0)
    customer = np.repeat(np.arange(config.customers), rng.poisson(world.rate * volume))
    second = rng.normal(43_200 + later, 20_000, len(customer)).astype(np.int64)
    mean = world.mean_amount[customer] * dearer
    drawn = rng.normal(mean, mean / 2)
    amount = np.where(drawn < 0, rng.uniform(0, 2 * mean), drawn).round(2)
    choices = np.array([len(terminals) for terminals in world.reachable])
    choice = (rng.random(len(customer)) * choices[customer]).astype(np.int64)
    # who reaches no terminal, and what falls outside the day, does not happen
    happens = (second > 0) & (second < DAY) & (choices[customer] > 0)
    offset = np.cumsum(choices) - choices
    terminal = np.concatenate(world.reachable)[(offset[customer] + choice)[happens]]
    return pd.DataFrame(
        {"time": second[happens], "customer_id": customer[happens], "terminal_id": terminal, "amount": amount[happens]}
    )


def _defraud(config: TabularSimulator, on: date, frame: pd.DataFrame) -> pd.DataFrame:
    """Add `fraud`, raise the amounts that thieves spend, and let what is to drift, drift."""
    terminals = _draw_compromised(config, TERMINAL_FRAUD, config.terminals, TERMINAL_SHARE, _last(on, TERMINAL_DAYS))
    customers = _draw_compromised(config, CUSTOMER_FRAUD, config.customers, CUSTOMER_SHARE, _last(on, CUSTOMER_DAYS))
    third = _rng(config, STOLEN, on.toordinal()).random(len(frame)) < 1 / 3
    stolen = customers[frame["customer_id"]] & third
    fraud = stolen | terminals[frame["terminal_id"]] | (frame["amount"].to_numpy() > LARGE)
    # at night nobody is watching, and thieves take their time
    is_patient = config.habits or (config.night_fraud and config.drifts(on))
    haste = 1.0 if is_patient else 5.0
    frame = frame.assign(amount=(frame["amount"] * np.where(stolen, haste, 1.0)).round(2), fraud=fraud)
    if config.habits:
        frame = habits.break_off(frame, stolen, _habits(config), _rng(config, BROKEN, on.toordinal()))
    frame = _drift(config, on, frame) if config.drifts(on) else frame
    return frame.astype({"fraud": "int8"}).astype({"fraud": "Int8"})


def _drift(config: TabularSimulator, on: date, frame: pd.DataFrame) -> pd.DataFrame:
    """Apply the configured drifts. `fraud` is bool and was decided before: dearer goods are no more fraudulent."""
    rows, ordinal = len(frame), on.toordinal()
    copied = _rng(config, COPIED, ordinal)
    tried = copied.random(rows) < config.new_scenario
    amount = np.where(tried, copied.uniform(*SMALL, rows), frame["amount"] * config.amount_factor).round(2)
    fraud = frame["fraud"].to_numpy() | tried
    night = _rng(config, NIGHT, ordinal).integers(0, NIGHT_END, rows)
    time = np.where(fraud, night, frame["time"]) if config.night_fraud else frame["time"]
    # one draw for all days: which terminals close, and have a new one in their place from then on
    closed = _rng(config, REPLACED, 0).random(config.terminals) < config.new_terminals
    terminal = frame["terminal_id"] + config.terminals * closed[frame["terminal_id"]]
    return frame.assign(time=time, terminal_id=terminal, amount=amount, fraud=fraud)


def _last(on: date, days: int) -> range:
    return range(on.toordinal() - days + 1, on.toordinal() + 1)


def _draw_compromised(
    config: TabularSimulator, stream: int, population: int, share: float, ordinals: range
) -> npt.NDArray[np.bool_]:
    """Return who was compromised on any of the days, bool (population,)."""
    compromised = np.zeros(population, dtype=bool)
    for ordinal in ordinals:
        rng = _rng(config, stream, ordinal)
        # a whole number of them, with the right mean in small worlds too
        count = int(population * share + rng.random())
        compromised[rng.choice(population, count, replace=False)] = True
    return compromised


def _corrupt(frame: pd.DataFrame, config: TabularSimulator, on: date) -> pd.DataFrame:
    """Spoil a share of the rows, each in one of the ways that ingestion quarantines, in turn."""
    rng = _rng(config, CORRUPTION, on.toordinal())
    rows = rng.choice(len(frame), round(config.corrupt_share * len(frame)), replace=False)
    sound = np.setdiff1d(frame.index, rows)
    frame = frame.astype({"customer_id": "Int64", "time": str})
    spoiled = (
        ("customer_id", pd.NA),
        ("time", "yesterday"),
        ("time", "1999-12-31 23:59:59"),
        ("amount", -1.0),
        ("fraud", 7),
        ("fraud", pd.NA),
        ("transaction_id", frame["transaction_id"].iloc[sound[0] if len(sound) else 0]),
    )
    for turn, (column, value) in enumerate(spoiled):
        frame.loc[rows[turn :: len(spoiled)], column] = value
    return frame
