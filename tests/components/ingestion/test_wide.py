"""Tables of many columns: what is done for each column is done once, and frames stay in one piece."""

import time
import timeit
from datetime import date

import numpy as np
import pandas as pd

from components.ingestion import core
from nightshift.config import parse
from tests.components.ingestion.conftest import CONFIG

DAY = date(2024, 3, 10)


def config(width: int) -> dict:
    sensors = [f"sensor_{number:05}" for number in range(width)]
    return CONFIG | {"columns": CONFIG["columns"] | {"numeric": sensors}, "limits": {"nullable": sensors}}


def test_a_config_of_5000_columns_is_parsed_within_2_seconds_of_a_cpu() -> None:
    wide = config(5000)

    # the least of three: collecting the garbage of earlier tests may take longer than the parsing
    seconds = min(timeit.repeat(lambda: parse(wide), time.process_time, number=1, repeat=3))

    names = parse(wide).columns.names
    assert seconds < 2
    assert len(names) == 5000 + len(CONFIG["columns"])


def test_a_day_of_200_columns_is_read_without_a_frame_in_pieces(clean_days) -> None:
    """pandas warns of such frames from 100 columns on, and warnings are errors."""
    wide, rows = parse(config(200)), pd.read_parquet(clean_days / f"{DAY}.parquet")
    sensors = pd.DataFrame(np.ones((len(rows), 200)), rows.index, wide.columns.numeric)
    sensors.iloc[::7, 3] = np.nan

    split = core.split(pd.concat([rows, sensors], axis=1), wide, DAY, labels_due=True)

    assert len(split.good) == len(rows)
    assert split.good["sensor_00003"].isna().sum() == len(range(0, len(rows), 7))
