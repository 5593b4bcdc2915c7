from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift.config.tabular import TabularSimulator
from nightshift.tasks.tabular import simulator, world

SMALL = TabularSimulator(customers=80, terminals=160)
DAY = date(2024, 3, 10)


def many(config: TabularSimulator, count: int) -> pd.DataFrame:
    return pd.concat(
        [simulator.SimulationTask().day(config, DAY + timedelta(days=i)) for i in range(count)], ignore_index=True
    )


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), first=st.dates(date(2000, 1, 1), date(2100, 1, 1)), index=st.integers(0, 20))
def test_a_day_made_alone_equals_that_day_of_a_full_run(seed, first, index):
    config = TabularSimulator(seed=seed, customers=20, terminals=40)
    run = {on: simulator.SimulationTask().day(config, on) for on in (first + timedelta(days=i) for i in range(21))}
    world.make_world.cache_clear()
    on = first + timedelta(days=index)
    pd.testing.assert_frame_equal(simulator.SimulationTask().day(config, on), run[on])


def test_another_seed_or_another_day_gives_other_transactions():
    one = simulator.SimulationTask().day(SMALL, DAY)
    for other in (
        simulator.SimulationTask().day(SMALL.model_copy(update={"seed": 1}), DAY),
        simulator.SimulationTask().day(SMALL, date(2024, 3, 11)),
    ):
        assert one["amount"].tolist() != other["amount"].tolist()


def test_another_seed_has_other_thieves():
    frames = [simulator.SimulationTask().day(TabularSimulator(seed=seed), DAY) for seed in (0, 1)]
    here, there = [set(frame.loc[frame["fraud"] == 1, "terminal_id"]) for frame in frames]
    assert len(here & there) < len(here) / 5


def test_columns_have_their_types_and_rows_the_order_of_time():
    frame = simulator.SimulationTask().day(SMALL, DAY)
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == {
        "transaction_id": "int64",
        "time": "datetime64[us]",
        "customer_id": "int64",
        "terminal_id": "int64",
        "amount": "float64",
        "fraud": "Int8",
    }
    assert frame["time"].is_monotonic_increasing
    assert (frame["time"].dt.date == DAY).all()
    assert (frame["amount"] >= 0).all()


def test_ids_are_unique_across_days():
    assert many(SMALL, 30)["transaction_id"].is_unique


def test_the_default_world_has_the_published_volume_and_share_of_fraud():
    frame = many(TabularSimulator(), 40)
    assert len(frame) / 40 == pytest.approx(1_754_155 / 183, rel=0.03)
    assert frame["fraud"].mean() == pytest.approx(0.0084, abs=0.0012)


def test_small_worlds_have_a_sensible_share_of_fraud():
    frame = many(TabularSimulator(customers=500, terminals=1000), 120)
    assert 0.004 < frame["fraud"].mean() < 0.016


def test_customers_reach_exactly_the_terminals_nearer_than_the_radius():
    rng = np.random.default_rng(0)
    customers, terminals = rng.random((30, 4)), rng.random((300, 2))
    built = world.assemble(customers, terminals, 12.0)
    distance = np.linalg.norm(100 * customers[:, None, :2] - 100 * terminals[None], axis=2)
    assert [reach.tolist() for reach in built.reachable] == [np.flatnonzero(row < 12.0).tolist() for row in distance]


def test_a_customer_may_reach_no_terminal():
    customers = np.array([[0.0] * 4, [0.9] * 4])
    built = world.assemble(customers, np.array([[0.01, 0.0]]), 5.0)
    assert [len(near) for near in built.reachable] == [1, 0]


def test_labels_that_are_not_due_are_null_and_nothing_else_changes():
    known, unknown = (
        simulator.SimulationTask().day(SMALL, DAY, labels_due=DAY),
        simulator.SimulationTask().day(SMALL, DAY, DAY - timedelta(days=1)),
    )
    assert known["fraud"].notna().all()
    assert unknown["fraud"].isna().all()
    assert str(unknown["fraud"].dtype) == "Int8"
    pd.testing.assert_frame_equal(known.drop(columns="fraud"), unknown.drop(columns="fraud"))


def test_a_drift_of_amounts_begins_on_its_day_and_leaves_the_frauds():
    drifting = SMALL.model_copy(update={"drift_from": str(DAY), "amount_factor": 1.5})
    before, after = DAY - timedelta(days=1), DAY
    pd.testing.assert_frame_equal(
        simulator.SimulationTask().day(drifting, before), simulator.SimulationTask().day(SMALL, before)
    )
    plain, dearer = simulator.SimulationTask().day(SMALL, after), simulator.SimulationTask().day(drifting, after)
    assert np.allclose(dearer["amount"], 1.5 * plain["amount"], atol=0.006)
    assert dearer["fraud"].equals(plain["fraud"])


def test_a_drift_of_volume_changes_the_count():
    more = SMALL.model_copy(update={"drift_from": "2024-01-01", "volume_factor": 3.0})
    assert len(simulator.SimulationTask().day(more, DAY)) == pytest.approx(
        3 * len(simulator.SimulationTask().day(SMALL, DAY)), rel=0.3
    )


def test_frauds_move_to_the_night_where_stolen_cards_buy_as_usual_and_others_stay():
    config = TabularSimulator(customers=1000, terminals=2000, drift_from="2024-01-01", night_fraud=True)
    frame, usual = (
        simulator.SimulationTask().day(config, DAY),
        simulator.SimulationTask().day(config.model_copy(update={"drift_from": None}), DAY),
    )
    assert usual.set_index("transaction_id")["amount"].div(frame.set_index("transaction_id")["amount"]).max() > 4.5
    night = frame["time"].dt.hour < 7
    fraud = frame["fraud"] == 1
    assert fraud.any()
    assert night[fraud].all()
    assert not night[~fraud].all()
    assert frame["time"].is_monotonic_increasing


def test_written_days_are_the_days(tmp_path):
    simulator.write_days(str(tmp_path), SMALL, [DAY, DAY + timedelta(days=1)], labels_due=DAY)
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["2024-03-10.parquet", "2024-03-11.parquet"]
    read = pd.read_parquet(tmp_path / "2024-03-10.parquet")
    assert read["amount"].tolist() == simulator.SimulationTask().day(SMALL, DAY)["amount"].tolist()
    assert pd.read_parquet(tmp_path / "2024-03-11.parquet")["fraud"].isna().all()


def test_new_terminals_take_the_place_of_the_same_old_ones_on_every_day():
    config = SMALL.model_copy(update={"drift_from": "2024-03-11", "new_terminals": 0.5})
    before = simulator.SimulationTask().day(config, DAY)
    pd.testing.assert_frame_equal(before, simulator.SimulationTask().day(SMALL, DAY))
    later = [DAY + timedelta(days=i) for i in range(1, 8)]
    moved = [
        simulator.SimulationTask().day(config, on)["terminal_id"]
        - simulator.SimulationTask().day(SMALL, on)["terminal_id"]
        for on in later
    ]
    assert set(pd.concat(moved)) == {0, SMALL.terminals}
    after = set(many(config, 8)["terminal_id"][lambda ids: ids >= SMALL.terminals] - SMALL.terminals)
    assert 0.3 < len(after) / SMALL.terminals < 0.7
    assert not after & set(pd.concat([simulator.SimulationTask().day(config, on) for on in later])["terminal_id"])


def test_a_new_scenario_adds_small_frauds_and_leaves_all_else_as_it_was():
    config = SMALL.model_copy(update={"drift_from": "2024-03-10", "new_scenario": 0.2})
    usual, drifted = simulator.SimulationTask().day(SMALL, DAY), simulator.SimulationTask().day(config, DAY)
    new = usual["amount"] != drifted["amount"]
    assert 0.1 < new.mean() < 0.3
    assert (drifted["fraud"][new] == 1).all()
    assert drifted["amount"][new].between(*simulator.SMALL).all()
    pd.testing.assert_frame_equal(usual[~new], drifted[~new])


def test_late_labels_arrive_so_many_days_after_they_are_due():
    config = SMALL.model_copy(update={"drift_from": "2024-03-10", "label_lateness_days": 3})
    known = [
        simulator.SimulationTask().day(config, DAY, DAY + timedelta(days=i))["fraud"].notna().all() for i in range(5)
    ]
    assert known == [False, False, False, True, True]
    assert simulator.SimulationTask().day(config, DAY - timedelta(days=1), DAY)["fraud"].notna().all()


def test_customers_with_habits_keep_to_their_hours_and_terminals_and_thieves_do_not() -> None:
    size = SMALL.model_copy(update={"customers": 400, "terminals": 800})
    frame = many(size.model_copy(update={"habits": True}), 20)
    usual, stolen = frame[frame["fraud"] == 0], frame[frame["fraud"] == 1]
    hand = np.exp(2j * np.pi * usual["time"].dt.hour / 24)  # of a clock with 24 hours

    assert np.abs(hand.groupby(usual["customer_id"]).mean()).mean() > 0.8, "1 would be one hour for all"
    assert usual.duplicated(["customer_id", "terminal_id"]).mean() > 0.6
    assert stolen.duplicated(["customer_id", "terminal_id"]).mean() < 0.4
    assert frame.groupby("terminal_id")["category"].nunique().max() == 1
    assert "category" not in many(size, 1)
