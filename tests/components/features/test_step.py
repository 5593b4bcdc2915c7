"""The step from manifest to manifest, on real Parquet files and in real processes."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta

import pandas as pd
import pytest

from components.features import component
from components.features.__main__ import body
from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.data.splits import Days, rows_of
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.tabular import frames
from nightshift.tabular.online import snapshot
from nightshift.tabular.online.event import Event, EventParser
from nightshift.tabular.online.state import OnlineState
from nightshift.tasks.base.features import FeatureSetup
from nightshift.tasks.tabular.features import FeaturesTask, core
from tests.components.features.days import CONFIG, DATE, flags, sample, write_events


def step(folder, **changes) -> tuple[tables.Table, dict[str, float]]:
    metrics = body(StepContext(component.features.parser().parse_args(flags(folder, **changes))))
    return tables.read_table(str(folder / "features.json")), metrics


def test_the_manifest_lists_the_days_and_the_model_inputs(tmp_path):
    events = tables.read_table(write_events(tmp_path))
    table, metrics = step(tmp_path)
    assert [part.date for part in table.partitions] == [f"2024-03-{day:02}" for day in range(5, 11)]
    windows = [f"customer_{name}_{w}d" for w in (1, 2) for name in ("count", "mean_amount")]
    windows += [f"terminal_{name}_{w}d" for w in (1, 2) for name in ("count", "positive_rate")]
    assert table.details == {
        "numeric": ["amount", "is_weekend", "is_night", *windows],
        "categorical": ["channel"],
        "events_sha256": events.sha256,
        "online": table.details["online"],
        "replay": {"day": "2024-03-10", "rows": 50, "differing": 0, "largest": 0.0, "worst": None},
    }
    assert metrics == {"rows": 300, "computed_days": 6, "online_differing": 0}


def test_a_partition_holds_its_days_events_in_order_with_their_inputs(tmp_path):
    write_events(tmp_path)
    table, _ = step(tmp_path)
    frame = table.read([DATE])
    assert frame["event_id"].tolist() == sample(DATE)["event_id"].tolist()
    assert list(frame) == [
        "event_id",
        "event_time",
        "customer",
        "label",
        "terminal",
        *table.details["numeric"],
        "channel",
    ]
    assert frame["label"].isna().all()
    assert {name: str(frame[name].dtype) for name in ("event_time", "label", "amount", "terminal_count_2d")} == {
        "event_time": "datetime64[us]",
        "label": "Int8",
        "amount": "float64",
        "terminal_count_2d": "float64",
    }


def test_more_online_state_than_is_allowed_is_refused_before_anything_is_computed(tmp_path):
    events = tables.read_table(write_events(tmp_path))
    many = [replace(part, rows=10**8) for part in events.partitions]
    setup = FeatureSetup(parse(CONFIG), str(tmp_path), replace(events, partitions=many), "cpu", str(tmp_path), "")
    features = FeaturesTask().features(setup)

    with pytest.raises(UserError, match=r"features.0: .* task.state_megabytes allows 16,000; give windows shorter"):
        features.write({DATE: features.uri(DATE)})


def test_a_second_run_computes_nothing_and_names_the_same_partitions(tmp_path):
    write_events(tmp_path)
    first, _ = step(tmp_path)
    second, metrics = step(tmp_path)
    assert second.partitions == first.partitions
    assert metrics["computed_days"] == 0


def test_the_snapshot_of_the_date_lies_in_the_lake_and_is_what_the_next_event_needs(tmp_path):
    write_events(tmp_path)
    table, _ = step(tmp_path)
    base = snapshot.map_file(table.details["online"], str(tmp_path))
    assert (base.snapshot.first, base.snapshot.last, base.snapshot.rows) == (date(2024, 3, 7), DATE, 200)
    past = pd.concat([sample(day) for day in Days(date(2024, 3, 7), DATE + timedelta(days=1))], ignore_index=True)
    offline = core.features(past, parse(CONFIG), frames.backend("cpu"))[table.details["numeric"]].tail(50)
    state, next_day = OnlineState(base), sample(DATE + timedelta(days=1)).itertuples()
    events = [Event(row[1], row.event_time.value // 1000, row.customer, row.terminal, row.amount) for row in next_day]
    assert [state.take(event)[0] for event in events] == offline.to_numpy().tolist()


def test_the_snapshots_example_is_an_event_that_it_knows_with_the_features_of_the_batch(tmp_path):
    write_events(tmp_path)
    table, _ = step(tmp_path)
    base = snapshot.map_file(table.details["online"], str(tmp_path))
    example = base.snapshot.example
    assert example is not None
    row, kept = OnlineState(base).take(EventParser(base.snapshot.events).read(example.event))
    assert kept is None
    assert row == [example.inputs[name] for name in table.details["numeric"]]


def test_a_use_case_without_windows_has_an_empty_snapshot_and_the_same_replay(tmp_path):
    write_events(tmp_path)
    columns = {name: column for name, column in CONFIG["columns"].items() if name not in ("customer", "terminal")}
    table, _ = step(tmp_path, config=CONFIG | {"columns": columns})
    assert table.details["replay"]["rows"] == 50
    assert table.details["replay"]["differing"] == 0
    base = snapshot.map_file(table.details["online"], str(tmp_path))
    assert base.snapshot.size == 0
    assert OnlineState(base).take(Event(1, 0, amount=2.5))[0] == [2.5, 0.0, 1.0]


def test_the_next_day_alone_is_computed_and_equals_a_run_from_scratch(tmp_path):
    write_events(tmp_path)
    step(tmp_path)
    tomorrow = DATE + timedelta(days=1)
    table, metrics = step(tmp_path, day=tomorrow)
    assert metrics["computed_days"] == 1

    write_events(tmp_path / "scratch")
    scratch, metrics = step(tmp_path / "scratch", day=tomorrow)
    assert metrics["computed_days"] == 6
    assert scratch.sha256 == table.sha256


def test_a_changed_day_is_computed_again_and_so_are_the_days_that_look_back_on_it(tmp_path):
    write_events(tmp_path)
    before, _ = step(tmp_path)
    changed = date(2024, 3, 6)
    write_events(tmp_path, Days(changed, changed))
    after, metrics = step(tmp_path)
    # windows reach back two days, and as far again as the delay of one
    assert metrics["computed_days"] == 4
    moved = [a.date for a, b in zip(after.partitions, before.partitions, strict=True) if a.sha256 != b.sha256]
    assert moved == ["2024-03-06", "2024-03-07", "2024-03-08", "2024-03-09"]


def test_days_missing_here_and_there_equal_those_computed_at_once(tmp_path):
    write_events(tmp_path)
    whole, _ = step(tmp_path)
    for part in (whole.partitions[1], whole.partitions[4]):
        (tmp_path / "lake" / f"{part.uri}.json").unlink()
    again, metrics = step(tmp_path)
    assert metrics["computed_days"] == 2
    assert again.sha256 == whole.sha256


def test_other_windows_or_another_zone_make_other_partitions(tmp_path):
    write_events(tmp_path)
    first, _ = step(tmp_path)
    tables = [first]
    for change in (
        {"features": [{"preset": "payments", "windows": ["2d"]}]},
        {"source": CONFIG["source"] | {"timezone": "Asia/Tokyo"}},
    ):
        table, metrics = step(tmp_path, config=CONFIG | change)
        tables.append(table)
        assert metrics == {"rows": 300, "computed_days": 6, "online_differing": 0}
    assert len({table.details["online"] for table in tables}) == 3


def test_other_models_leave_the_partitions_as_they_are(tmp_path):
    write_events(tmp_path)
    step(tmp_path)
    _, metrics = step(tmp_path, config=CONFIG | {"task": CONFIG["task"] | {"candidates": {"b": {"kind": "mlp"}}}})
    assert metrics["computed_days"] == 0


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "components.features", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_the_command_writes_the_manifest_and_says_what_it_does(tmp_path):
    write_events(tmp_path)
    done = command(*flags(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "0 days are in the lake, 6 to compute on cpu" in done.stderr
    assert len(rows_of(tables.read_table(str(tmp_path / "features.json")).read([DATE]), Days(DATE, DATE))) == 50


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("cudf") is not None, reason="RAPIDS is installed here")
def test_cuda_without_rapids_is_refused_in_one_line_never_computed_on_the_cpu(tmp_path):
    write_events(tmp_path)
    done = command(*flags(tmp_path, device="cuda"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "features: --device cuda needs RAPIDS, which cannot be imported (No module named 'cudf'); run pip "
    )
    assert line.endswith("or run with --device cpu")
    assert not (tmp_path / "features.json").exists()


@pytest.mark.slow
def test_a_day_without_events_is_named_in_one_line(tmp_path):
    write_events(tmp_path)
    done = command(*flags(tmp_path, day=DATE + timedelta(days=9)))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("features: table 'events' has no 2024-03-12, it holds 2024-03-02 .. 2024-03-11")
