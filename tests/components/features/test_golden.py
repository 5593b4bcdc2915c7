"""The published features of the Fraud Detection Handbook, 2018-07-25 .. 2018-08-14."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from nightshift.config import parse
from nightshift.data.splits import Days, rows_of
from nightshift.tabular import frames
from nightshift.tasks.tabular.features import core

ROOT = Path(__file__).parents[3]
HANDBOOK = ROOT.parent / "shared" / "data" / "handbook"
DAYS = Days(date(2018, 7, 25), date(2018, 8, 14))
CANONICAL = {
    "TRANSACTION_ID": "event_id",
    "TX_DATETIME": "event_time",
    "CUSTOMER_ID": "customer",
    "TERMINAL_ID": "terminal",
    "TX_AMOUNT": "amount",
    "TX_FRAUD": "label",
}
PUBLISHED = {"amount": "TX_AMOUNT", "is_weekend": "TX_DURING_WEEKEND", "is_night": "TX_DURING_NIGHT"}
for w in (1, 7, 30):
    PUBLISHED |= {
        f"customer_count_{w}d": f"CUSTOMER_ID_NB_TX_{w}DAY_WINDOW",
        f"customer_mean_amount_{w}d": f"CUSTOMER_ID_AVG_AMOUNT_{w}DAY_WINDOW",
        f"terminal_count_{w}d": f"TERMINAL_ID_NB_TX_{w}DAY_WINDOW",
        f"terminal_positive_rate_{w}d": f"TERMINAL_ID_RISK_{w}DAY_WINDOW",
    }


def read(folder: str, days: Days) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(HANDBOOK / folder / f"{day}.parquet") for day in days], ignore_index=True)


@pytest.mark.skipif(not HANDBOOK.exists(), reason="needs the published data in ../shared/data/handbook")
def test_published_features_are_reproduced_but_for_rows_of_one_second_and_customer():
    config = parse(yaml.safe_load((ROOT / "pipelines/configs/handbook.yaml").read_text()))
    raw = read("raw", Days(DAYS.first - timedelta(days=37), DAYS.last))
    events = raw[list(CANONICAL)].rename(columns=CANONICAL)
    events = events.sort_values(["event_time", "event_id"], ignore_index=True)

    computed = rows_of(core.features(events, config, frames.backend("cpu")), DAYS).set_index("event_id")
    golden = read("golden_features", DAYS).set_index("TRANSACTION_ID").loc[computed.index]

    assert len(computed) == len(golden) == 201_295
    assert set(PUBLISHED) == set(core.numeric_inputs(config))
    differs = ~np.isclose(computed[list(PUBLISHED)], golden[list(PUBLISHED.values())], rtol=0, atol=1e-9).all(axis=1)
    tied = computed.duplicated(["event_time", "customer"], keep=False)
    assert differs.sum() <= 20
    assert tied[differs].all()
