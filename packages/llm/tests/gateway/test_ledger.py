"""The ledger: what is admitted, what waits, and what a killed process leaves behind."""

import asyncio
import random
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from nightshift.runtime.errors import UserError
from nightshift_llm.gateway.budgets import DAY, Amount
from nightshift_llm.gateway.errors import BudgetError, LedgerError, RateError
from nightshift_llm.gateway.keys import ApiKey
from nightshift_llm.gateway.ledger import RECOVERED, Ledger, TokenUsage
from nightshift_llm.gateway.ledger_file import SCHEMA, LedgerRow, read_report
from nightshift_testkit.processes import SECONDS, content, started

TODAY = 20_000 * DAY + 100.0
DATE = "2024-10-04"


def team(**limits: int) -> ApiKey:
    return ApiKey("team", "0" * 64, **limits)


def with_ledger(path: Path, work: Callable[[Ledger], Awaitable[Any]], now: float = TODAY) -> Any:
    """Do work with a ledger that is closed afterwards."""

    async def run() -> Any:
        ledger = Ledger(str(path), lambda: now)
        try:
            return await work(ledger)
        finally:
            await ledger.close()

    return asyncio.run(run())


def test_tokens_are_charged_by_key_version_and_day_and_add_up_over_restarts(tmp_path) -> None:
    async def work(ledger: Ledger) -> None:
        for version, usage in (("1", TokenUsage(10, 5)), ("1", TokenUsage(20, 1)), ("2", None)):
            ledger.settle(await ledger.reserve(team(), Amount(100)), version, usage)
        ledger.release(await ledger.reserve(team(), Amount(100)))

    for _ in range(2):
        with_ledger(tmp_path / "ledger", work)
    with_ledger(tmp_path / "ledger", work, TODAY + DAY)
    assert read_report(str(tmp_path / "ledger")) == [
        LedgerRow("team", "1", DATE, 4, 60, 12, 0, 0),
        LedgerRow("team", "2", DATE, 2, 0, 0, 200, 0),
        LedgerRow("team", "1", "2024-10-05", 2, 30, 6, 0, 0),
        LedgerRow("team", "2", "2024-10-05", 1, 0, 0, 100, 0),
    ]


def test_a_request_that_fits_passes_those_that_wait_and_these_are_admitted_in_their_order(tmp_path) -> None:
    admitted: list[int] = []

    async def work(ledger: Ledger) -> None:
        key = team(tokens_per_day=100)
        first = await ledger.reserve(key, Amount(90))

        async def ask(tokens: int) -> None:
            reservation = await ledger.reserve(key, Amount(tokens))
            admitted.append(tokens)
            ledger.settle(reservation, "1", TokenUsage(tokens, 0))

        waiting = [asyncio.create_task(ask(tokens)) for tokens in (50, 5, 40)]
        async with asyncio.timeout(SECONDS):
            await waiting[1]
            assert (admitted, ledger.count_waiting()) == ([5], {"team": 2})
            ledger.settle(first, "1", TokenUsage(5, 0))
            await asyncio.gather(*waiting)
        assert ledger.count_waiting() == {"team": 0}

    with_ledger(tmp_path / "ledger", work)
    assert admitted == [5, 50, 40]


def test_a_request_is_refused_once_the_others_have_used_what_it_needs(tmp_path) -> None:
    async def work(ledger: Ledger) -> None:
        key = team(tokens_per_day=100)
        first = await ledger.reserve(key, Amount(90))
        waiting = asyncio.create_task(ledger.reserve(key, Amount(50)))
        await asyncio.sleep(0)
        ledger.settle(first, "1", TokenUsage(60, 0))
        with pytest.raises(BudgetError, match="up to 50 tokens; team has 40 of 100 left today"):
            await waiting

    with_ledger(tmp_path / "ledger", work)


def test_a_client_that_leaves_while_it_waits_holds_nothing(tmp_path) -> None:
    async def work(ledger: Ledger) -> None:
        key = team(tokens_per_day=100)
        first = await ledger.reserve(key, Amount(90))
        waiting = asyncio.create_task(ledger.reserve(key, Amount(50)))
        await asyncio.sleep(0)
        waiting.cancel()
        ledger.release(first)
        ledger.release(await ledger.reserve(key, Amount(100)))
        committing = asyncio.create_task(ledger.reserve(key, Amount(100)))
        await asyncio.sleep(0)
        committing.cancel()
        ledger.release(await ledger.reserve(key, Amount(100)))

    with_ledger(tmp_path / "ledger", work)
    assert read_report(str(tmp_path / "ledger")) == []


def test_a_request_that_waits_is_admitted_at_midnight() -> None:
    async def work() -> list[str]:
        shift = TODAY - TODAY % DAY + DAY - 0.1 - time.monotonic()
        ledger, key = Ledger(clock=lambda: time.monotonic() + shift), team(tokens_per_day=100)
        reservations = [await ledger.reserve(key, Amount(90))]
        async with asyncio.timeout(SECONDS):
            reservations += [await ledger.reserve(key, Amount(50))]
        for reservation in reservations:
            ledger.settle(reservation, "1", None)
        await ledger.flush()
        return [row.day for row in ledger.report()]

    assert asyncio.run(work()) == [DATE, "2024-10-05"]


def test_a_day_that_is_far_ahead_hides_no_other_day(tmp_path) -> None:
    key = team(tokens_per_day=100)

    async def work(ledger: Ledger) -> None:
        ledger.settle(await ledger.reserve(key, Amount(60)), "1", None)

    with_ledger(tmp_path / "ledger", work, TODAY + 30 * DAY)
    with_ledger(tmp_path / "ledger", work)
    with pytest.raises(BudgetError, match="team has 40 of 100 left"):
        with_ledger(tmp_path / "ledger", work)


def test_a_number_that_is_too_large_for_the_ledger_ends_its_transaction() -> None:
    async def work() -> list[int]:
        ledger = Ledger()
        ledger.settle(await ledger.reserve(team(), Amount(1)), "1", TokenUsage(2**64, 0))
        with suppress(OverflowError):
            await ledger.flush()
        ledger.settle(await ledger.reserve(team(), Amount(1)), "1", TokenUsage(5, 0))
        await ledger.flush()
        return [row.prompt_tokens for row in ledger.report()]

    assert asyncio.run(work()) == [5]


def test_a_rate_holds_over_a_restart(tmp_path) -> None:
    key = team(requests_per_minute=3)

    async def work(ledger: Ledger) -> None:
        ledger.release(await ledger.reserve(key, Amount(1)))

    for _ in range(3):
        with_ledger(tmp_path / "ledger", work)
    with pytest.raises(RateError, match="has used its 3 requests of this minute; retry in 20 s") as error:
        with_ledger(tmp_path / "ledger", work)
    assert error.value.retry_after == 20


def test_a_ledger_that_cannot_be_written_admits_nothing_and_holds_nothing(tmp_path) -> None:
    async def work(ledger: Ledger) -> None:
        ledger._database.execute("pragma query_only = on")
        with pytest.raises(LedgerError, match="cannot be written"):
            await ledger.reserve(team(tokens_per_day=100), Amount(60))
        ledger._database.execute("pragma query_only = off")
        await ledger.reserve(team(tokens_per_day=100), Amount(60))

    with_ledger(tmp_path / "ledger", work)


def test_a_file_that_is_no_ledger_is_refused(tmp_path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to be read as the header of one" * 20)
    with pytest.raises(UserError, match="file is not a database; give a ledger, or the name of a new file"):
        Ledger(str(tmp_path / "text"))
    with pytest.raises(UserError, match="give the file of --ledger"):
        read_report(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("create table usage (key text, version text, day integer, requests integer, prompt_tokens integer)", 1),
        ("create table usage (key text, nanodollars integer); pragma user_version = 2", 2),
        (f"{SCHEMA} pragma user_version = 4", 4),
    ],
)
def test_a_ledger_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path, script: str, version: int) -> None:
    path = tmp_path / "ledger"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
    before = path.read_bytes()

    for read in (Ledger, read_report):
        with pytest.raises(UserError, match=f"ledger '.*' is of version {version}, .* new file") as error:
            read(str(path))
        assert "\n" not in str(error.value)
    assert path.read_bytes() == before


def test_a_ledger_from_before_versions_were_written_down_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{SCHEMA} pragma user_version = 0")

    with_ledger(path, lambda ledger: ledger.flush())
    assert read_report(str(path)) == []


def test_a_database_with_other_tables_of_the_same_names_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("create table reservations (guest text)")

    with pytest.raises(UserError, match=r"no such column: .*; give a ledger, or the name of a new file"):
        Ledger(str(path))


def test_a_day_keeps_what_is_spent_wherever_the_clock_jumps(tmp_path) -> None:
    key, now = team(tokens_per_day=100), [TODAY]

    async def run() -> list[LedgerRow]:
        ledger = Ledger(str(tmp_path / "ledger"), lambda: now[0])
        for day in [0, 3, 0, -6, 0, 40, *range(1, 20), 0]:
            now[0] = TODAY + day * DAY
            with suppress(BudgetError):
                ledger.settle(await ledger.reserve(key, Amount(60)), "1", TokenUsage(60, 0))
        open_reservation = await ledger.reserve(key, Amount(40))
        now[0] += DAY
        ledger.settle(open_reservation, "1", TokenUsage(40, 0))
        now[0] -= DAY
        with pytest.raises(BudgetError, match="team has 0 of 100 left"):
            await ledger.reserve(key, Amount(1))
        await ledger.flush()
        rows = ledger.report()
        await ledger.close()
        return rows

    rows = asyncio.run(run())
    assert {row.prompt_tokens for row in rows if row.day != DATE} == {60}
    assert [row.prompt_tokens for row in rows if row.day == DATE] == [100]


def write_ledger(path: Path) -> None:
    """Fill a ledger, and leave it as a killed process would, with a write-ahead log."""

    async def work(ledger: Ledger) -> None:
        for number in range(60):
            key = ApiKey(f"team-{number}", "0" * 64)
            ledger.settle(await ledger.reserve(key, Amount(100)), "1", TokenUsage(1000 + number, 77))
            await ledger.flush()
        await ledger.reserve(key, Amount(100))
        for file in path.parent.glob("ledger*"):
            (path.parent / "killed").mkdir(exist_ok=True)
            (path.parent / "killed" / file.name).write_bytes(file.read_bytes())

    with_ledger(path, work)


def read_damaged(folder: Path, name: str, content: bytes, tmp_path: Path) -> list[LedgerRow] | None:
    """Open a copy of a ledger with other content in one of its files; None: it is refused."""
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("killed", "*-shm", "copy"))
    (copy / name).write_bytes(content)

    async def report(ledger: Ledger) -> list[LedgerRow]:
        return ledger.report()

    try:
        return with_ledger(copy / "ledger", report)
    except UserError:
        return None


def test_a_damaged_page_or_write_ahead_log_is_noticed(tmp_path: Path) -> None:
    source, generator = tmp_path / "source", random.Random(1)
    source.mkdir()
    write_ledger(source / "ledger")
    for folder, name in ((source, "ledger"), (source / "killed", "ledger-wal")):
        content = (folder / name).read_bytes()
        whole, outcomes = read_damaged(folder, name, content, tmp_path), Counter[bool]()
        assert whole and len(whole) >= 60
        for _ in range(40):
            position = generator.randrange(len(content))
            damaged = content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]
            rows = read_damaged(folder, name, damaged, tmp_path)
            assert rows in (None, whole)  # a byte without meaning changes nothing
            outcomes[rows is None] += 1
        assert outcomes[True] > 3
        for size in (0, len(content) // 2, len(content) - 1):
            assert read_damaged(folder, name, content[:size], tmp_path) is None


def test_a_number_that_a_disk_changed_in_a_row_is_noticed_at_the_start_and_by_the_next_charge(tmp_path: Path) -> None:
    path = tmp_path / "ledger"

    async def work(ledger: Ledger) -> None:
        ledger.settle(await ledger.reserve(team(), Amount(9)), "1", TokenUsage(5, 1))
        await ledger.flush()
        ledger._database.execute("update usage set prompt_tokens = 4")
        ledger.settle(await ledger.reserve(team(), Amount(9)), "1", TokenUsage(5, 1))
        await ledger.flush()
        assert [row.prompt_tokens for row in ledger.report()] == [4]

    with_ledger(path, work)
    for read in (Ledger, read_report):
        with pytest.raises(UserError, match=r"is damaged: 1 rows do not match their checksums; see .*restore\.md"):
            read(str(path))


def test_a_damaged_row_of_a_key_keeps_no_other_key_from_being_charged_in_the_same_commit(tmp_path: Path) -> None:
    other = ApiKey("other", "1" * 64)

    async def work(ledger: Ledger) -> None:
        ledger.settle(await ledger.reserve(team(), Amount(9)), "1", TokenUsage(5, 1))
        await ledger.flush()
        ledger._database.execute("update usage set prompt_tokens = 4")
        for reservation in [await ledger.reserve(key, Amount(9)) for key in (team(), other)]:
            ledger.settle(reservation, "1", TokenUsage(5, 1))
        await ledger.reserve(other, Amount(9))
        assert [(row.key, row.prompt_tokens) for row in ledger.report()] == [("other", 5), ("team", 4)]

    with_ledger(tmp_path / "ledger", work)


def test_a_ledger_that_lacks_commits_is_refused_and_taken_once_their_count_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"

    async def work(ledger: Ledger) -> None:
        ledger.settle(await ledger.reserve(team(), Amount(9)), "1", TokenUsage(5, 1))

    with_ledger(path, work)
    older = path.read_bytes()
    with_ledger(path, work)
    path.write_bytes(older)
    with pytest.raises(UserError, match=r"lacks its last \d+ commits, of which .*ledger-commits tells"):
        Ledger(str(path))
    count = tmp_path / "ledger-commits"
    count.write_bytes(b"x" * 20)
    with pytest.raises(UserError, match="ledger-commits is damaged"):
        Ledger(str(path))
    count.unlink()
    with_ledger(path, work)


def test_keys_that_come_while_others_are_charged_hold_nobody_up(tmp_path: Path) -> None:
    async def work(ledger: Ledger) -> None:
        async def ask(number: int) -> None:
            key = ApiKey(f"team-{number}", "0" * 64)
            ledger.settle(await ledger.reserve(key, Amount(9)), "1", TokenUsage(5, 1))

        async with asyncio.timeout(SECONDS):
            for start in range(0, 3000, 30):
                await asyncio.gather(*(ask(number) for number in range(start, start + 30)))

    with_ledger(tmp_path / "ledger", work)
    assert len(read_report(str(tmp_path / "ledger"))) == 3000


HOLD = """
import asyncio, sys
from nightshift_llm.gateway.budgets import Amount
from nightshift_llm.gateway.keys import ApiKey
from nightshift_llm.gateway.ledger import Ledger, TokenUsage
async def hold():
    ledger = Ledger(sys.argv[1], lambda: float(sys.argv[3]))
    key = ApiKey("team", "0" * 64, tokens_per_day=1000)
    settled, _, _ = [await ledger.reserve(key, Amount(tokens)) for tokens in (500, 200, 100)]
    ledger.settle(settled, "1", TokenUsage(30, 3))
    await ledger.flush()
    open(sys.argv[2], "w").write("held")
    await asyncio.sleep(1000)
asyncio.run(hold())
"""


@pytest.mark.slow
def test_what_was_in_progress_when_the_process_was_killed_is_charged_in_full_and_shown(tmp_path, caplog) -> None:
    path = str(tmp_path / "ledger")
    with started([sys.executable, "-c", HOLD, path, str(tmp_path / "held"), str(TODAY)]):
        content(tmp_path / "held")

    async def work(ledger: Ledger) -> list[LedgerRow]:
        with pytest.raises(BudgetError, match="team has 667 of 1000 left"):
            await ledger.reserve(team(tokens_per_day=1000), Amount(668))
        return ledger.report()

    rows = with_ledger(path, work)
    assert [(row.version, row.requests, row.estimated_tokens) for row in rows] == [("1", 1, 0), (RECOVERED, 2, 300)]
    assert "2 requests were in progress: charged in full, 300 tokens" in caplog.text
