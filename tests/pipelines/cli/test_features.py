"""`nightshift features`: what declared features gain and need, from raw rows and a config."""

from pathlib import Path
from typing import Any

import pytest

from nightshift.runtime import strict_yaml
from tests.pipelines.samples import command

CONFIG: dict[str, Any] = {
    "name": "habits",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet"},
    "columns": {
        "event_id": "transaction_id",
        "event_time": "time",
        "customer": "customer_id",
        "terminal": "terminal_id",
        "amount": "amount",
        "label": "fraud",
        "categorical": ["category"],
    },
    "simulator": {"customers": 600, "terminals": 1200, "habits": True},
    "protocol": {"train_days": 3, "test_days": 3},
    "features": [
        {"entity": ["customer", "category"], "functions": ["count"], "windows": ["3d"]},
        {"entity": "customer", "functions": ["seconds_since_last"], "windows": ["3d"]},
    ],
    "task": {
        "kind": "tabular",
        "candidates": {"a": {"kind": "xgboost", "parameters": {"n_estimators": 5, "max_depth": 2}}},
    },
}


def features(folder: Path, action: str, **changes: Any) -> tuple[int, str, str]:
    path = folder / "c.yaml"
    path.write_text(strict_yaml.dump(CONFIG | changes))
    done = command("features", action, "--config", str(path), "--date", "2025-03-20")
    return done.returncode, done.stdout, done.stderr


def test_plan_prints_the_bytes_of_each_entity_and_the_rate_to_expect(tmp_path: Path) -> None:
    code, out, error = features(tmp_path, "plan")

    assert code == 0, error
    assert "events of 2025-03-15 .. 2025-03-19" in out
    assert "customer x category: " in out
    assert " MB, and " in out
    assert "events per second: " in out
    assert ", p99 " in out


def test_rank_prints_gains_with_intervals_and_the_lines_to_keep(tmp_path: Path) -> None:
    code, out, error = features(tmp_path, "rank")

    assert code == 0, error
    judged, *rows = out.splitlines()
    assert judged.endswith("judged on 2025-03-13 .. 2025-03-15; no later day was read")
    assert len([row for row in rows if row.startswith(("keep | +", "keep | -", "drop | +", "drop | -"))]) == 2
    kept = strict_yaml.load("\n".join(rows[rows.index("features:") :]).encode(), "out")["features"]
    assert kept
    assert all(line in CONFIG["features"] for line in kept)


@pytest.mark.parametrize(
    ("action", "changes", "says"),
    [
        ("plan", {"features": [{"calendar": ["hour"]}]}, "features: declares none of earlier events"),
        ("rank", {"features": []}, "features: has no lines to rank"),
        (
            "plan",
            {"features": [{"entity": "cart", "functions": ["count"], "windows": ["1d"]}]},
            "features.0: entity: 'cart' cannot stand here; allowed: ",
        ),
    ],
)
def test_a_declaration_that_cannot_be_measured_is_refused(
    tmp_path: Path, action: str, changes: dict[str, Any], says: str
) -> None:
    code, out, error = features(tmp_path, action, **changes)

    assert (code, out) == (2, "")
    assert says in error


def test_more_state_than_the_limit_is_refused_after_the_plan(tmp_path: Path) -> None:
    wide = [{"entity": "customer", "functions": ["zscore"], "column": "amount", "windows": ["30d"]}]

    code, out, error = features(tmp_path, "plan", features=wide, task=CONFIG["task"] | {"state_megabytes": 1})

    assert code == 2, out
    assert "features.0: the declared features need 2 MB of online state" in error
    assert "set task.state_megabytes: 2" in error
