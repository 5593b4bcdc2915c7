"""Small data as other people have them, for the shipped use cases: a signal to find, and habits to put up with."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd

from nightshift.data.splits import Days

Make = Callable[[Path, Days, np.random.Generator], None]


def _moments(days: Days, a_day: int, rng: np.random.Generator) -> pd.Series:
    midnights = np.repeat(pd.date_range(days.first, days.last).to_numpy(), a_day)
    seconds = rng.integers(0, 86_400, len(midnights))
    return pd.Series(midnights + seconds.astype("timedelta64[s]")).sort_values(ignore_index=True)


def _happens(logit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.random(len(logit)) < 1 / (1 + np.exp(-logit))


def payments(folder: Path, days: Days, rng: np.random.Generator) -> None:
    """One CSV file: UUIDs, local times, refunds, labels in words, empty categories, and a country nobody knew."""
    moments = _moments(days, 150, rng)
    rows = len(moments)
    merchant = rng.integers(0, 80, rows)
    weeks = ((moments - moments[0]).dt.days // 14).to_numpy()
    # for a fortnight at a time, some merchants have been broken into
    broken = rng.random((80, weeks.max() + 1)) < 0.05
    amount = rng.gamma(2, 30, rows).round(2)
    channel = rng.choice(["web", "shop", ""], rows, p=[0.5, 0.4, 0.1])
    country = rng.choice(["BE", "FR", "NL"], rows)
    country[(moments >= moments.iloc[-1].floor("D") - pd.Timedelta(days=18)) & (rng.random(rows) < 0.05)] = "LU"
    charged = _happens(-8 + 5 * broken[merchant, weeks] + amount / 25 + 1.5 * (channel == "web"), rng)
    frame = pd.DataFrame(
        {
            "Payment ID": [str(UUID(bytes=rng.bytes(16))) for _ in range(rows)],
            "Booked at": moments.dt.tz_localize("UTC")
            .dt.tz_convert("Europe/Brussels")
            .dt.strftime("%Y-%m-%dT%H:%M:%S"),
            "Account": [f"A-{number:04}" for number in rng.integers(0, 3000, rows)],
            "Merchant": [f"M{number}" for number in merchant],
            "Amount (EUR)": np.where(rng.random(rows) < 0.05, -amount, amount),
            "Card age (days)": rng.integers(1, 2000, rows),
            "Channel": channel,
            "Country": country,
            "Charged back": pd.Series(charged).map({True: "true", False: "false"}),
            "reason": "a column of the user's own",
        }
    )
    frame.loc[moments >= moments.iloc[-1].floor("D") - pd.Timedelta(days=9), "Charged back"] = ""
    frame.to_csv(folder / "payments.csv", index=False)


def machine_failure(folder: Path, days: Days, rng: np.random.Generator) -> None:
    """A Parquet file a day: booleans for labels, a sensor that is often silent, and one that always says the same."""
    moments = _moments(days, 400, rng)
    rows = len(moments)
    hours = rng.uniform(0, 1000, rows)
    vibration = rng.gamma(4, 0.5, rows) + hours / 1000
    temperature = rng.normal(60, 5, rows) + 3 * vibration
    kind = rng.choice(["Fräse", "Drehbank"], rows)
    fails = _happens(-10 + 0.9 * vibration + 0.06 * temperature + hours / 800, rng)
    frame = pd.DataFrame(
        {
            "reading_id": np.arange(rows),
            "measured_at": moments,
            "machine_id": [f"machine {number}" for number in rng.integers(0, 40, rows)],
            "machine_type": kind,
            "temperature_c": np.where(rng.random(rows) < 0.05, np.nan, temperature),
            "vibration_mm_s": vibration,
            "pressure_bar": 6.1,
            "hours_since_service": hours,
            "fails_within_three_days": fails,
        }
    )
    for day, part in frame.groupby(moments.dt.strftime("%Y-%m-%d")):
        part.to_parquet(folder / f"{day}.parquet", index=False)


def leads(folder: Path, days: Days, rng: np.random.Generator) -> None:
    """One CSV file: events that stand alone, and Sundays on which nobody buys."""
    moments = _moments(days, 60, rng)
    rows = len(moments)
    pages, minutes = rng.poisson(4, rows), rng.gamma(2, 3, rows).round(1)
    source = rng.choice(["search", "mail", "friend"], rows, p=[0.6, 0.3, 0.1])
    buys = _happens(-7 + 0.5 * pages + 0.3 * minutes + 2 * (source == "friend"), rng)
    frame = pd.DataFrame(
        {
            "lead_id": [f"L{number}" for number in range(rows)],
            "created_at": moments.dt.strftime("%Y-%m-%d %H:%M"),
            "pages_seen": pages,
            "minutes_on_site": minutes,
            "earlier_visits": rng.poisson(1, rows),
            "source": source,
            "country": rng.choice(["Österreich", "Deutschland"], rows),
            "device": rng.choice(["phone", "desktop"], rows),
            "converted": (buys & (moments.dt.dayofweek != 6)).astype(int),
        }
    )
    frame.to_csv(folder / "leads.csv", index=False)


MAKE: dict[str, Make] = {"payments": payments, "machine-failure": machine_failure, "leads": leads}
