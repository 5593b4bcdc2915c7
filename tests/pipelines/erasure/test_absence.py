"""After any customer is erased nothing of its ids is left; others' events, features and scores are as without it."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from nightshift import storage
from nightshift.data import values

from .nights import Nights, identities, rows, without

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=12)
KINDS = [
    st.integers(0, 10**7),
    TEXTS,
    st.sampled_from(["0", "00", "000", "7", "07", "7.0"]),
    st.sampled_from([28.0, 280.0, None, 2.0]),
]
CLIENTS = st.one_of(*(st.lists(kind, min_size=2, max_size=5) for kind in KINDS))


@pytest.mark.slow
@settings(max_examples=1, deadline=None)
@example(["007", "7", "0070", '<b>"Zoë", 7'], "pay-{}-x")
@given(clients=CLIENTS, ids=st.sampled_from(["", "pay-{}-x", "{:08d}"]))
def test_nothing_of_an_erased_customer_is_left_and_nights_are_those_of_a_source_without_it(
    clients: list[Any], ids: str
) -> None:
    known = {values.canonical(client) for client in clients} - {"", None}
    assume(values.canonical(clients[0]) and len(known) > 1)
    frame = rows(clients, per_day=8, ids=ids)
    others = without(frame, clients[0])
    assume(others["at"].dt.date.nunique() == frame["at"].dt.date.nunique())  # ingestion refuses a day without rows
    with tempfile.TemporaryDirectory() as folder:
        nights, never = Nights(Path(folder, "erased")), Nights(Path(folder, "never"))
        for one, delivered in ((nights, frame), (never, others)):
            one.deliver(delivered)
            one.register()
        nights.night()
        nights.answer(frame)

        proof = nights.erase(clients[0]).proof

        own = frame[frame["client"].map(values.canonical) == values.canonical(clients[0])]
        assert proof is not None and proof.hits == {}
        assert (
            find_cells(nights.folder, {values.canonical(value) for value in own["payment"]}, ("event_id", "payment"))
            == []
        )
        assert find_cells(nights.folder, {values.canonical(clients[0])}, ("customer", "client")) == []
        assert identities(nights.night()) == identities(never.night())
        assert counts(nights) == counts(never)


def find_cells(folder: Path, ids: set[str | None], columns: tuple[str, ...]) -> list[str]:
    """The Parquet files of the workspace in which a column of ids has one of these."""
    hits = []
    for path in (folder / "lake").rglob("*.parquet"):
        frame = storage.read_frame(str(path))
        cells = {values.canonical(cell) for name in columns if name in frame for cell in frame[name]}
        hits += [str(path)] if cells & ids else []
    return hits


def counts(nights: Nights) -> list[dict[str, Any]]:
    """What the newest events manifest says of each day, without where it lies and what it was made from."""
    manifest = storage.read_json(str(nights.folder / "runs" / f"tiny-training-{nights.runs}" / "events" / "events"))
    return [part["details"] | {"source_sha256": "", "quarantine_uri": ""} for part in manifest["partitions"]]
