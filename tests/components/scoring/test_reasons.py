"""Reasons beside a day's scores: in the partition, in the section, in a database, and only where they are asked for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.scoring import reason_counts, sink
from components.scoring.__main__ import body
from nightshift.config.scoring import Scoring
from nightshift.contracts import package, tables
from nightshift.contracts.section import TableBlock, read_section
from nightshift.data.databases import open_database
from nightshift.models.contributions import Contributions, DenseLayers, Term
from nightshift.runtime.errors import UserError
from tests.components import samples
from tests.components.states import state

MEANS = np.array([0.5, 0.5], np.float32)


def write_model(folder: Path, *weights: float, files: bool = True) -> None:
    """A linear model, and the file of its reasons."""
    layers = [(np.array([weights], np.float32), np.array([MEANS @ np.array(weights)], np.float32))]
    content = Contributions([Term(DenseLayers(MEANS, np.ones(2, np.float32), layers))]).content
    samples.write_model(folder / "model", {"only": [*weights]}, files=[(package.REASONS, content)] if files else [])


def score(folder: Path, reasons: int) -> pd.DataFrame:
    """The newest day's scores of a config that asks for reasons."""
    config = json.dumps(samples.CONFIG | {"scoring": {"reasons": reasons}})
    features = samples.write_features(folder, samples.features())
    flags = {"state": state(folder), "model": str(folder / "model"), "scores": str(folder / "scores")}
    body(samples.context(config=config, features=features, **flags))
    return pd.read_parquet(newest(folder).uri)


def newest(folder: Path) -> tables.Partition:
    return tables.read_table(str(folder / "scores" / "scores.json")).partitions[-1]


def test_each_score_has_its_reasons_which_with_the_bias_are_its_margin(tmp_path: Path) -> None:
    write_model(tmp_path, 1.0, -0.5)

    scored = score(tmp_path, 2)

    events = samples.features().tail(40)
    for reasons, amount, risk, total in zip(
        map(json.loads, scored["reasons"]), events["amount"], events["risk"], scored["score"], strict=True
    ):
        by_input = {reason["input"]: reason["contribution"] for reason in reasons}
        assert by_input == pytest.approx({"amount": amount - 0.5, "risk": -0.5 * (risk - 0.5)}, abs=1e-6)
        assert sum(by_input.values()) + 0.25 == pytest.approx(total, abs=1e-6)
        assert {reason["text"].split(" is ")[0] for reason in reasons} == {"amount", "risk"}


def test_nobody_gets_reasons_who_does_not_ask_and_other_counts_have_files_of_their_own(tmp_path: Path) -> None:
    write_model(tmp_path, 1.0, -0.5)
    without, names = score(tmp_path, 0), {newest(tmp_path).uri}
    for count in (1, 2):
        assert {len(json.loads(text)) for text in score(tmp_path, count)["reasons"]} == {count}
        names.add(newest(tmp_path).uri)

    assert "reasons" not in without
    assert len(names) == 3


def test_a_model_without_reasons_ends_the_step_with_what_to_write(tmp_path: Path) -> None:
    write_model(tmp_path, 1.0, -0.5, files=False)

    with pytest.raises(UserError, match=r"has no reasons: its candidate 'only' .* or write scoring\.reasons: 0"):
        score(tmp_path, 2)


def test_the_section_counts_the_reasons_of_the_highest_scores(tmp_path: Path) -> None:
    write_model(tmp_path, 1.0, -0.5)
    score(tmp_path, 1)

    section = read_section(str(tmp_path / "scores"))

    assert section
    (table,) = [block for block in section.blocks if isinstance(block, TableBlock) and "reasons" in block.title]
    assert table.title == "Most frequent reasons of the 40 highest scores"
    assert sum(float(row.cells[1] or 0) for row in table.rows) == pytest.approx(1.0)


def test_the_most_frequent_input_is_first_with_how_often_it_raises_a_score() -> None:
    reasons = [[("a", 1.0), ("b", -1.0)], [("a", -2.0)], [("a", 1.0), ("c", 0.5)]]
    texts = [json.dumps([{"input": name, "contribution": value} for name, value in row]) for row in reasons]

    rows = reason_counts.build(pd.DataFrame({"score": [0.1, 0.2, 0.3], "reasons": texts})).rows

    assert rows[0].cells == pytest.approx(["a", 1.0, 2 / 3])
    assert [row.cells[0] for row in rows] == ["a", "c", "b"]


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_reasons_are_in_the_table_of_a_database(scheme: str, tmp_path: Path) -> None:
    write_model(tmp_path, 1.0, -0.5)
    scored = score(tmp_path, 2)
    uri = f"{scheme}://{tmp_path}/scores.db"
    columns = "event_id bigint, model_version varchar(20), event_time timestamp, score real, flagged boolean"
    with open_database(uri) as database, database.transaction() as cursor:
        cursor.execute(f"create table s ({columns}, reasons text, primary key (event_id, model_version))")

    sink.write_days(Scoring(database=uri, table="s"), [newest(tmp_path)])

    with open_database(uri, read_only=True) as database:
        rows: Any = database.read("select reasons from s order by event_id", {})
    assert rows["reasons"].tolist() == scored["reasons"].tolist()
