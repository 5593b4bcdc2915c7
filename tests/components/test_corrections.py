"""Late and corrected rows: a night after them ends with what a night from scratch ends with."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.features import component
from components.features.__main__ import body as make_features
from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.contracts.tables import Table
from nightshift.data.splits import plan
from nightshift.runtime.context import StepContext
from tests.components.ingestion.conftest import CONFIG, DATE, Step

SETTINGS = CONFIG | {"quarantine": {"max_share": 1.0, "max_label_share": 1.0}}
A_DAY = 12


def write_day(folder: Path, day: date, rng: np.random.Generator) -> None:
    seconds = np.sort(rng.integers(0, 86_400, A_DAY))
    frame = pd.DataFrame({"transaction_id": day.toordinal() * 100 + np.arange(A_DAY)})
    frame["time"] = pd.Timestamp(day) + pd.to_timedelta(seconds, unit="s")
    frame["customer_id"], frame["terminal_id"] = rng.integers(0, 3, A_DAY), rng.integers(0, 3, A_DAY)
    frame["amount"], frame["fraud"] = rng.integers(1, 999, A_DAY) / 4, rng.integers(0, 2, A_DAY)
    frame.to_parquet(folder / f"{day}.parquet")


def correct(folder: Path, day: date, rng: np.random.Generator) -> None:
    """Change amounts and a label of a day, leave a row out, add one that came late, and one that came again."""
    file = folder / f"{day}.parquet"
    frame = pd.read_parquet(file)
    frame.loc[rng.integers(0, A_DAY, 3), "amount"] += 1
    frame.loc[int(rng.integers(0, A_DAY)), "fraud"] ^= 1
    late = frame.sample(1, random_state=rng).assign(transaction_id=day.toordinal() * 100 + 50)
    again = frame.sample(1, random_state=rng)
    again["transaction_id"] = (day - timedelta(days=1)).toordinal() * 100 + int(rng.integers(0, A_DAY))
    kept = frame.drop(index=int(rng.integers(0, A_DAY)))
    pd.concat([kept, late, again], ignore_index=True).to_parquet(file)


def run_night(root: Path, folder: Path, corrections: bool) -> tuple[Table, Table]:
    """Ingest the folder and compute features in the lake of a root; return events and features."""
    step = Step(root)
    source = SETTINGS["source"] | {"corrections": corrections}
    events = step.ingest(SETTINGS | {"source": source}, folder)
    flags = step.flags(SETTINGS | {"source": source}, folder)
    features = {name: flags[name] for name in ("config", "date", "state", "events")}
    features |= {"features": str(root / "features.json"), "device": "cpu"}
    words = [word for name, value in features.items() for word in (f"--{name}", value)]
    make_features(StepContext(component.features.parser().parse_args(words)))
    return events, tables.read_table(features["features"])


def contents(table: Table) -> dict[str, str]:
    return {part.date: part.sha256 for part in table.partitions}


@pytest.mark.slow
@pytest.mark.parametrize("corrections", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_night_after_corrections_equals_a_night_from_scratch(tmp_path: Path, seed: int, corrections: bool) -> None:
    days = list(plan(parse(SETTINGS), date.fromisoformat(DATE)).events)
    rng, folder = np.random.default_rng(seed), tmp_path / "raw"
    folder.mkdir()
    for day in days:
        write_day(folder, day, rng)
    _, before = run_night(tmp_path / "kept", folder, corrections)
    corrected = days[int(rng.integers(1, len(days) - 1))]
    correct(folder, corrected, rng)

    events, features = run_night(tmp_path / "kept", folder, corrections)
    fresh_events, fresh_features = run_night(tmp_path / "fresh", folder, corrections)

    assert contents(events) == contents(fresh_events)
    assert contents(features) == contents(fresh_features)
    assert contents(features) != contents(before)
    assert features.details["replay"]["differing"] == 0
