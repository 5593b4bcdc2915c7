"""An event id that comes on several days of a run: one row stays, the others are quarantined, none is lost."""

from datetime import date
from itertools import product

import numpy as np
import pandas as pd
import pytest

from components.ingestion import repeats
from nightshift import storage
from nightshift.config import parse
from nightshift.data.splits import plan
from nightshift.runtime.errors import UserError
from nightshift.tasks.images import simulator as pictures
from nightshift.tasks.texts import simulator as sentences
from tests.components import pictures as pictures_of
from tests.components import topics as topics_of

SPELLINGS = {"numbers": int, "leading zeros": lambda number: f"{number:03d}"}
RULES = {False: "duplicate_id_of_earlier_day", True: "replaced_on_later_day"}


def rows(days, seed, spelling):
    """A few rows a day, whose ids are drawn from so few that many come again, on the same day too."""
    rng = np.random.default_rng(seed)
    frames = []
    for day in days:
        count = 8
        times = pd.Timestamp(day) + pd.to_timedelta(np.sort(rng.integers(0, 86400, count)), unit="s")
        ids = [spelling(number) for number in rng.integers(0, 40, count)]
        frames.append(
            pd.DataFrame({"transaction_id": ids, "time": times, "customer_id": 1, "terminal_id": 1}).assign(
                amount=rng.integers(1, 99, count) / 4, fraud=0
            )
        )
    return frames


def ingested(step, config, folder, days, frames):
    """Ingest one table, or a file a day; return events, quarantine and the manifest."""
    folder.mkdir(exist_ok=True)
    if "table" in config["source"]:
        pd.concat(frames).to_csv(folder / config["source"]["table"], index=False)
    else:
        for day, frame in zip(days, frames, strict=True):
            frame.to_parquet(folder / f"{day}.parquet")
    table = step.ingest(config, folder)
    bad = [part.details["quarantine_uri"] for part in table.partitions if part.details["quarantine_uri"]]
    good = pd.concat([storage.read_frame(part.uri) for part in table.partitions], ignore_index=True)
    return good, pd.concat([storage.read_frame(uri) for uri in bad], ignore_index=True), table


@pytest.mark.parametrize(
    ("layout", "spelling", "corrections"), list(product(["files", "table"], SPELLINGS, [False, True]))
)
def test_an_event_id_stays_on_one_day(step, config, tmp_path, days, layout, spelling, corrections):
    config["source"] = {"corrections": corrections} | (
        {"files": "{date}.parquet"} if layout == "files" else {"table": "all.csv"}
    )
    config["quarantine"] = {"max_share": 1.0, "max_label_share": 1.0}
    frames = rows(days, len(spelling), SPELLINGS[spelling])
    good, bad, table = ingested(step, config, tmp_path / "raw", days, frames)

    firsts = pd.concat(frame.drop_duplicates("transaction_id") for frame in frames)
    expected = firsts.drop_duplicates("transaction_id", keep="last" if corrections else "first")
    assert good["event_id"].is_unique
    assert good[["event_id", "amount"]].astype(str).to_numpy().tolist() == (
        expected.sort_values("time")[["transaction_id", "amount"]].astype(str).to_numpy().tolist()
    )
    reasons = bad["quarantine_reason"].value_counts()
    assert reasons["duplicate_id"] == sum(map(len, frames)) - len(firsts) > 0
    assert reasons[RULES[corrections]] == len(firsts) - len(expected) > 0
    assert table.details["quarantined"] == reasons.to_dict()


def test_a_night_whose_days_are_in_the_lake_writes_nothing_although_ids_repeat(step, config, tmp_path, days):
    config["quarantine"] = {"max_share": 1.0, "max_label_share": 1.0}
    frames = rows(days, 1, int)
    *_, first = ingested(step, config, tmp_path / "raw", days, frames)
    written = {file: file.stat().st_mtime_ns for file in step.lake.rglob("*.parquet*")}
    assert step.ingest(config, tmp_path / "raw") == first
    assert {file: file.stat().st_mtime_ns for file in step.lake.rglob("*.parquet*")} == written


def test_a_row_comes_back_when_the_earlier_one_of_its_id_goes(step, config, folder, spoil, days):
    taken = pd.read_parquet(folder / f"{days[0]}.parquet")["transaction_id"][0]

    def again(frame):
        return frame.assign(transaction_id=frame["transaction_id"].where(frame.index > 0, taken))

    before = step.ingest(config, folder).partitions[4]
    file = spoil(days[4], again)
    repeated = step.ingest(config, folder).partitions[4]
    assert repeated.rows == before.rows - 1
    assert repeated.details["quarantined"] == {"duplicate_id_of_earlier_day": 1}
    spoil(days[0], lambda frame: frame[frame["transaction_id"] != taken])
    back = step.ingest(config, folder).partitions[4]
    assert (back.rows, back.details["quarantined"]) == (before.rows, {})
    assert len({before.uri, repeated.uri, back.uri}) == 3
    assert file.exists()


def test_ids_that_begin_anew_each_day_stop_the_run_with_the_reason(step, config, folder, spoil, days):
    for day in days:
        spoil(day, lambda frame: frame.assign(transaction_id=range(len(frame))))
    with pytest.raises(UserError, match="rule 'duplicate_id_of_earlier_day' rejected"):
        step.ingest(config, folder)


@pytest.mark.parametrize(("world", "module"), [(pictures_of, pictures), (topics_of, sentences)])
def test_an_image_or_a_text_stays_on_one_day(tmp_path, world, module):
    config, days = parse(world.CONFIG), list(plan(parse(world.CONFIG), date.fromisoformat(pictures_of.DATE)).events)
    frames = {day: module.SimulationTask().day(config.simulator, day, day) for day in days}
    id_column = config.columns.event_id
    frames[days[3]].loc[:1, id_column] = frames[days[0]].loc[:1, id_column]
    for day, frame in frames.items():
        frame.to_parquet(tmp_path / f"{day}.parquet")
    table = pictures_of.ingest(
        tmp_path, world.CONFIG | {"quarantine": {"max_share": 0.1, "max_label_share": 1.0}}, str(tmp_path)
    )
    counts = {part.date: part.details["quarantined"] for part in table.partitions if part.details["quarantined"]}
    assert counts == {str(days[3]): {"duplicate_id_of_earlier_day": 2}}


def test_keys_tell_every_id_from_every_other():
    numbers = pd.Series([0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
    assert len(set(repeats.keys(numbers))) == len(numbers)
    texts = pd.Series(["", "7", "07", "007", "7 ", "\u0661", "A", "a"], dtype="string")
    assert len(set(repeats.keys(texts))) == len(texts)
    assert (repeats.keys(texts) == repeats.keys(texts.astype(object))).all()
