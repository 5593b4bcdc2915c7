"""The ledger: reservations of requests in progress, and tokens used by key, version and day, in SQLite.

A reservation is on disk before its request reaches a replica, and a settlement before the end of its stream reaches the
client; concurrent requests share a commit. So the ledger of a gateway that was killed knows every request that was
in progress. It charges them in full when it is opened again, as `estimated_tokens`: what they have used is not known.
"""

import asyncio
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Annotated, Any

import msgspec

from nightshift.http.futures import resolve
from nightshift.http.group_commit import GroupCommit
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log
from nightshift_llm.gateway.budgets import DAY, MINUTE, Amount, KeyBudget, Outcome
from nightshift_llm.gateway.commit_count import CommitCount
from nightshift_llm.gateway.errors import BudgetError, GatewayError, LedgerError, RateError
from nightshift_llm.gateway.keys import NANODOLLARS, ApiKey
from nightshift_llm.gateway.ledger_file import (
    ADVANCE,
    CHARGE,
    COUNT,
    IN_MEMORY,
    RECOVER,
    RELEASE,
    RESERVE,
    SPENT,
    LedgerRow,
    connect,
    fetch_report,
    open_file,
)
from nightshift_llm.gateway.prices import Rate

FREE = Rate()
RECOVERED = "unknown"  # version of requests in progress when the gateway was killed
RETRY_SECONDS = 60.0  # after which a request that waits looks at the clock again

Tokens = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # sums of them fit SQLite's integers


class TokenUsage(msgspec.Struct, frozen=True):
    """The tokens of a request, as an engine reports them."""

    prompt_tokens: Tokens
    completion_tokens: Tokens

    @property
    def total(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens


NOTHING = TokenUsage(0, 0)


@dataclass
class Reservation:
    """The reservation of a request.

    Attributes:
        id: id in the ledger.
        key: name of the key.
        day: UTC day that is charged, in days since 1970.
        amount: maximum usage of the request.
        rate: maximum price of its tokens.
        is_settled: whether the actual usage has replaced it.
    """

    id: int
    key: str
    day: int
    amount: Amount
    rate: Rate = FREE
    is_settled: bool = False


Statement = tuple[str, tuple[Any, ...]]


class _KeyState:
    """A key's budget, the number of requests that wait for it, and the future that they await."""

    def __init__(self, read_spent: Callable[[int], Amount]) -> None:
        self.budget, self.waiting = KeyBudget(read_spent), 0
        self._settlement: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Wait until a request is settled, or for some seconds."""
        if self._settlement is None or self._settlement.done():
            self._settlement = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._settlement], timeout=seconds)

    def settle(self, reservation: "Reservation", used: Amount) -> None:
        """Replace a reservation by the actual usage, and let the requests that wait try again, in their order."""
        self.budget.settle(reservation.day, reservation.amount, used)
        if self._settlement:
            resolve(self._settlement, None)


class Ledger:
    """The budgets of all keys, durable. One process at a time may open a file."""

    def __init__(self, path: str = IN_MEMORY, clock: Callable[[], float] = time.time) -> None:
        """Open the ledger, and charge requests that were in progress when it was closed.

        Args:
            path: its file; in memory for a gateway without keys.
            clock: returns the seconds since 1970.

        Raises:
            UserError: when the file cannot be opened, is not a ledger, of another version, or damaged.
        """
        self._clock, self._ids = clock, count(1)  # no reservation is open: they were charged
        self._keys: dict[str, _KeyState] = {}
        self._commit_count: CommitCount | None = None
        self._commits = GroupCommit(self._commit, lambda _: path == IN_MEMORY)
        try:
            self._database = open_file(path)
            if path != IN_MEMORY:
                self._commit_count = CommitCount(path)
                self._commit_count.check(*self._database.execute("select number from commits").fetchone())
            self._recover()
            self._load_minutes()
            # a read may not wait for the commits' connection: its checksums need the interpreter that the reader holds
            self._reader = self._database if path == IN_MEMORY else connect(path)
        except sqlite3.Error as error:
            raise UserError(f"ledger {path!r}: {error}; give a ledger, or the name of a new file") from None

    async def reserve(self, key: ApiKey, amount: Amount, rate: Rate = FREE) -> Reservation:
        """Hold tokens and money for a request, durably.

        While requests in progress hold what it needs, it waits until they return enough or have used too much, or for
        the next day. One that fits passes those that wait; these are admitted in their order.

        Raises:
            BudgetError: when the key has less left today, whatever the others return.
            RateError: when the key has used its requests of the minute.
            LedgerError: when the ledger cannot be written.
        """
        state = self._find_state(key.name)
        outcome = state.budget.admit(key.limits, amount, self._clock())
        if outcome is Outcome.WAITING:
            outcome = await self._wait_for_budget(state, key, amount)
        if outcome is not Outcome.ADMITTED:
            raise _refuse(key, state.budget, amount, outcome, self._clock())
        reservation = Reservation(next(self._ids), key.name, state.budget.day, amount, rate)
        await self._write_reservation(reservation, state.budget)
        return reservation

    async def _wait_for_budget(self, state: _KeyState, key: ApiKey, amount: Amount) -> Outcome:
        state.waiting += 1
        try:
            outcome = Outcome.WAITING
            while outcome is Outcome.WAITING:
                midnight = DAY - self._clock() % DAY  # seconds until all tokens are there again
                await state.wait(min(midnight, RETRY_SECONDS))
                outcome = state.budget.admit(key.limits, amount, self._clock())
            return outcome
        finally:
            state.waiting -= 1

    def count_waiting(self) -> dict[str, int]:
        """Return the requests that wait for budget, by the name of their key."""
        return {name: state.waiting for name, state in self._keys.items()}

    def describe_limits(self, key: ApiKey) -> dict[str, str]:
        """Return the limits of a key and what is left of them, in headers of OpenAI's API."""
        budget, now, headers = self._find_state(key.name).budget, self._clock(), dict[str, str]()
        try:
            budget.turn_to(now)
        except LedgerError:
            return headers
        free = budget.remaining(key.limits).minus(budget.today.reserved)
        for unit, limit, left, period in (
            ("requests", key.requests_per_minute, (key.requests_per_minute or 0) - budget.requests, MINUTE),
            ("tokens", key.tokens_per_day, free.tokens, DAY),
        ):
            if limit is not None:
                headers[f"x-ratelimit-limit-{unit}"] = str(limit)
                headers[f"x-ratelimit-remaining-{unit}"] = str(max(left, 0))
                headers[f"x-ratelimit-reset-{unit}"] = f"{math.ceil(period - now % period)}s"
        return headers

    def _find_state(self, name: str) -> _KeyState:
        if name not in self._keys:
            self._keys[name] = _KeyState(partial(self._read_spent, name))
        return self._keys[name]

    def _read_spent(self, key: str, day: int) -> Amount:
        try:
            return Amount(*self._reader.execute(SPENT, (key, day)).fetchone())
        except sqlite3.Error as error:
            log.error("nothing is admitted: the ledger cannot be read: %s", error)
            raise LedgerError("the ledger of keys cannot be read; try again later", retry_after=1) from None

    async def _write_reservation(self, reservation: Reservation, budget: KeyBudget) -> None:
        row = (reservation.id, reservation.key, reservation.day, *reservation.amount)
        minute = (reservation.key, budget.minute, budget.requests)
        try:
            await self._commits.submit([(RESERVE, row), (COUNT, minute)])
        except sqlite3.Error as error:
            self.release(reservation)
            log.error("nothing is admitted: the ledger cannot be written: %s", error)
            raise LedgerError("the ledger of keys cannot be written; try again later", retry_after=1) from None
        except asyncio.CancelledError:
            self.release(reservation)
            raise

    def settle(self, reservation: Reservation, version: str, usage: TokenUsage | None, rate: Rate = FREE) -> None:
        """Charge a request's usage, at most at the rate at which it was admitted.

        Args:
            reservation: the request's reservation.
            version: version of the model that has answered.
            usage: tokens that the engine has counted; None: it has not, and the reservation is charged.
            rate: the version's rate.
        """
        counted, estimated = usage or NOTHING, 0 if usage else reservation.amount.tokens
        used = measure_cost(reservation, usage, rate)
        self._return(reservation, used)
        key, day = reservation.key, reservation.day
        charge = (key, version, day, 1, counted.prompt_tokens, counted.completion_tokens, estimated, used.nanodollars)
        self._write([(CHARGE, charge), (RELEASE, (reservation.id,))])

    def release(self, reservation: Reservation) -> None:
        """Release the reservation of a request that has used nothing."""
        self._return(reservation, Amount(0))
        self._write([(RELEASE, (reservation.id,))])

    async def flush(self) -> None:
        """Wait until all settlements so far are on disk; one that failed is logged, and charged in full later."""
        with suppress(sqlite3.Error):
            await self._commits.submit([])

    async def close(self) -> None:
        """Flush pending writes and close the file."""
        await self.flush()
        self._reader.close()
        self._database.close()
        if self._commit_count:
            self._commit_count.close()

    def report(self) -> list[LedgerRow]:
        """Return the usage of keys by version and day, the latest day last."""
        return fetch_report(self._reader)

    def _return(self, reservation: Reservation, used: Amount) -> None:
        assert not reservation.is_settled
        reservation.is_settled = True
        self._keys[reservation.key].settle(reservation, used)

    def _write(self, statements: list[Statement]) -> None:
        self._commits.submit(statements).add_done_callback(_log_failure)

    def _commit(self, group: Sequence[Sequence[Statement]]) -> list[sqlite3.DatabaseError | None]:
        """Execute the statements of several requests in one transaction."""
        self._database.execute("begin immediate")
        try:
            answers = [self._execute(statements) for statements in group]
            ((number,),) = self._database.execute(ADVANCE).fetchall()
            self._database.execute("commit")
        except Exception:
            if self._database.in_transaction:  # some failures have ended it
                self._database.execute("rollback")
            raise
        if self._commit_count:
            self._commit_count.write(number)
        return answers

    def _execute(self, statements: Sequence[Statement]) -> sqlite3.DatabaseError | None:
        """Execute a request's statements up to a charge of a damaged row, which changes nothing; return its error."""
        for sql, values in statements:
            if self._database.execute(sql, values).rowcount == 0 and sql is CHARGE:
                return sqlite3.DatabaseError(f"the row of {values[:3]} is damaged")
        return None

    def _recover(self) -> None:
        """Charge requests that were in progress when the ledger was closed."""
        recovered = self._database.execute(RECOVER).fetchall()
        charges = [
            (CHARGE, (key, RECOVERED, day, requests, 0, 0, *amount)) for key, day, requests, *amount in recovered
        ]
        self._commit([[*charges, ("delete from reservations", ())]])
        if recovered:
            requests, tokens = (sum(row[column] for row in recovered) for column in (2, 3))
            log.warning("%d requests were in progress: charged in full, %d tokens", requests, tokens)

    def _load_minutes(self) -> None:
        for key, minute, requests in self._database.execute("select key, minute, requests from minutes"):
            budget = self._find_state(key).budget
            budget.minute, budget.requests = minute, requests


def measure_cost(reservation: Reservation, usage: TokenUsage | None, rate: Rate) -> Amount:
    """Return the actual usage of a request; without a count, its reservation."""
    if usage is None:
        return reservation.amount
    agreed = rate.at_most(reservation.rate)
    return Amount(usage.total, agreed.cost(usage.prompt_tokens, usage.completion_tokens))


def _refuse(key: ApiKey, budget: KeyBudget, amount: Amount, outcome: Outcome, now: float) -> GatewayError:
    if outcome is Outcome.OVER_RATE:
        wait = math.ceil(MINUTE - now % MINUTE)
        message = f"{key.name} has used its {key.requests_per_minute} requests of this minute; retry in {wait} s"
        return RateError(message, retry_after=wait)
    left = budget.remaining(key.limits)
    if amount.tokens > left.tokens:
        return BudgetError(
            f"the request may use up to {amount.tokens} tokens; {key.name} has {left.tokens} of "
            f"{key.tokens_per_day} left today, until midnight UTC; lower max_tokens, or ask for a higher tokens_per_day"
        )
    return BudgetError(
        f"the request may cost up to {_format_dollars(amount)} dollars; {key.name} has {_format_dollars(left)} of "
        f"{key.dollars_per_day:g} left today, until midnight UTC; lower max_tokens, or ask for a higher dollars_per_day"
    )


def _format_dollars(amount: Amount) -> str:
    return f"{amount.nanodollars / NANODOLLARS:.6f}"


def _log_failure(future: "asyncio.Future[None]") -> None:
    if not future.cancelled() and (error := future.exception()):
        log.error("a settlement is not on disk, and is charged in full at the next start: %s", error)
