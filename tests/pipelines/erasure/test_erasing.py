"""A customer is erased from a workspace that nights have filled, and the nights after are as if it had never been."""

import json
import shutil
from datetime import date
from pathlib import Path

import pytest

from nightshift import storage
from nightshift.contracts import tables
from nightshift.contracts.tables import Table
from nightshift.erasure import listing
from nightshift.runtime.errors import UserError
from nightshift.storage import locks
from nightshift_testkit.s3 import bucket, reached_at
from pipelines.erasure.carrying_out import plan

from .nights import Nights, identities, rows, without

CLIENTS = ["ada-0001", "bob-0002", "cleo-003", "dan-0004"]


def bytes_of(folder: Path) -> bytes:
    """Every byte below a folder, Parquet as its cells."""
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            parts.append(storage.read_frame(str(path)).to_csv().encode())
        elif path.is_file():
            parts.append(path.read_bytes())
    return b"\n".join(parts)


def test_no_byte_of_the_id_or_of_its_events_stays(tmp_path: Path) -> None:
    frame, nights = rows(CLIENTS), Nights(tmp_path)
    nights.deliver(frame)
    nights.register()
    nights.night()
    nights.answer(frame)
    note = tmp_path / "runs" / "tiny-training-1" / "deployment.json"
    own = frame[frame["client"] == "ada-0001"]["payment"]
    note.write_text(json.dumps({"example": {"client": "ada-0001", "payment": own.iloc[0]}, "other": "bob-0002"}))

    nights.erase("ada-0001")
    for file in nights.raw.iterdir():
        file.unlink()

    every = bytes_of(tmp_path)
    assert b"ada-0001" not in every and len(own) > 9
    assert [payment for payment in own if payment.encode() in every] == []
    assert json.loads(note.read_text()) == {
        "example": {"client": "[erased]", "payment": "[erased]"},
        "other": "bob-0002",
    }
    assert b"bob-0002" in every


def test_tables_of_earlier_runs_name_what_replaces_their_days(tmp_path: Path) -> None:
    frame, nights = rows(CLIENTS), Nights(tmp_path)
    nights.deliver(frame)
    nights.register()
    before = nights.night()
    own = before["events"].read(nights_days(before))
    others = int((own["customer"] != "ada-0001").sum())

    nights.erase("ada-0001")

    for name in ("events", "features"):
        table = tables.read_table(str(tmp_path / "runs" / "tiny-training-1" / name / name))
        left = table.read(nights_days({"events": table}))
        assert len(left) == table.rows and "ada-0001" not in set(left["customer"])
    assert tables.read_table(str(tmp_path / "runs" / "tiny-training-1" / "events" / "events")).rows == others
    assert nights.night(until="features")["events"].rows == others


def nights_days(made: dict[str, Table]) -> list[date]:
    return [date.fromisoformat(part.date) for part in made["events"].partitions]


def test_one_id_does_not_remove_another_that_contains_it(tmp_path: Path) -> None:
    frame, nights = rows([12, 123, 1234, 312], ids=""), Nights(tmp_path)
    nights.deliver(frame)
    nights.night(until="events")
    (tmp_path / "runs" / "tiny-training-1" / "report.json").write_text('{"rows": 12, "client": 123, "price": 12.0}')

    nights.erase(12)

    left = nights.night(until="events")["events"]
    assert set(left.read(nights_days({"events": left}))["customer"]) == {123, 1234, 312}
    assert "12" in (tmp_path / "runs" / "tiny-training-1" / "report.json").read_text()


def test_a_dry_run_lists_files_and_bytes_and_changes_nothing(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    nights.deliver(rows(CLIENTS))
    nights.night(until="features")
    before = bytes_of(tmp_path)

    listed = plan(nights.request("ada-0001"))

    assert bytes_of(tmp_path) == before
    assert {store.store for store in listed.stores} >= {"events", "quarantine", "features", "online"}
    assert all(store.files and store.rows and store.size_bytes for store in listed.stores)
    assert listed.decision is None and listed.proof is None


def test_a_customer_who_is_nowhere_is_refused(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    nights.deliver(rows(CLIENTS))
    nights.night(until="events")
    with pytest.raises(UserError, match="customer 'ada' is in no store of use case 'tiny'"):
        nights.erase("ada")
    assert listing.read(nights.state.lake, "tiny") is None


def test_a_second_customer_is_erased_from_days_that_were_renamed(tmp_path: Path) -> None:
    frame, nights = rows(CLIENTS), Nights(tmp_path / "erased")
    nights.deliver(frame)
    nights.night(until="events")
    nights.erase("ada-0001")
    nights.night(until="events")
    nights.erase("bob-0002")

    other = Nights(tmp_path / "never")
    other.deliver(without(without(frame, "ada-0001"), "bob-0002"))
    assert identities(nights.night(until="events")) == identities(other.night(until="events"))


@pytest.mark.slow
def test_a_customer_is_erased_from_a_lake_in_an_object_store(tmp_path: Path) -> None:
    frame = rows(CLIENTS)
    with bucket() as url, reached_at(url):
        nights, never = Nights(tmp_path / "erased", "s3://lake/lake"), Nights(tmp_path / "never")
        nights.deliver(frame)
        never.deliver(without(frame, "ada-0001"))
        nights.night(until="events")

        decision = nights.erase("ada-0001")

        assert decision.proof is not None and decision.proof.hits == {}
        assert identities(nights.night(until="events")) == identities(never.night(until="events"))


def days_in_lake(nights: Nights) -> set[str]:
    return {
        str(path.relative_to(nights.folder)) for path in (nights.folder / "lake" / "tiny" / "events").rglob("*.parquet")
    }


def test_a_run_on_the_same_source_uses_the_renamed_days_and_makes_none_anew(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    nights.deliver(rows(CLIENTS))
    nights.night(until="events")
    before = days_in_lake(nights)
    nights.erase("ada-0001")
    renamed = days_in_lake(nights)
    assert len(renamed) == len(before) and len(renamed - before) > 5

    nights.night(until="events")

    assert days_in_lake(nights) == renamed


def test_the_same_source_ingested_anew_does_not_bring_the_customer_back(tmp_path: Path) -> None:
    frame, nights, never = rows(CLIENTS), Nights(tmp_path / "erased"), Nights(tmp_path / "never")
    nights.deliver(frame)
    never.deliver(without(frame, "ada-0001"))
    nights.night(until="events")
    nights.erase("ada-0001")
    for table in ("events", "quarantine"):  # as if past its retention
        shutil.rmtree(nights.folder / "lake" / "tiny" / table)

    assert identities(nights.night(until="events")) == identities(never.night(until="events"))
    with pytest.raises(UserError, match="was erased on"):
        nights.erase("ada-0001")


def test_an_erasure_is_refused_while_a_run_of_the_use_case_is_in_progress(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    gate = tmp_path / "runs" / ".locks" / "tiny.gate"
    gate.parent.mkdir(parents=True)
    with locks.hold(gate, shared=True), pytest.raises(UserError, match=r"a run of 'tiny' .* is in progress"):
        nights.erase("ada-0001")
    assert not (tmp_path / "lake").exists()
