"""What a run has spent, and the budget that stops it.

Each step hands on what it and the steps before it have spent, as text in the metadata of its artifacts, so that every
engine's next step knows it: no graph, no server and no shared folder is needed. Before a step works, the sum is held
to the config's `costs`; while it works, a timer ends it when the rest is used up. A try that is preempted leaves what
it has spent beside the step's output, where the next one finds it. What a step cannot know is what runs beside it at
the time, and tries of its own that failed or were killed.
"""

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from nightshift import storage
from nightshift.config.policy import Costs
from nightshift.context import StepContext
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.costs import prices
from nightshift.errors import UnavailableError, UserError

log = logging.getLogger("nightshift")

SPENT = "spent"
TRAINING = "training"  # the step that may take several machines, and resumes after it was preempted
HOUR = 3600.0
# seconds that a step has to clean up after the timer has interrupted it; more where it gives machines back
GRACE, MACHINES_GRACE = 10.0, 40.0


@dataclass(frozen=True)
class Spent:
    """What a step, or several, took.

    Attributes:
        seconds: of machines.
        usd: None where the machine has no price.
    """

    seconds: float = 0.0
    usd: float | None = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Spent(self.seconds + other.seconds, usd)


@dataclass(frozen=True)
class Account:
    """A step's view of its run's spending.

    Attributes:
        costs: of the use case.
        machine: that the step runs on; empty where nobody has said.
        before: step -> what it has spent, of those whose artifacts this one reads and those before them, and of this
            one in tries that were preempted.
        machines: that the step takes at once.
        tries: URI of what these tries leave; empty where there are none.
    """

    costs: Costs
    machine: str
    before: Mapping[str, Spent]
    machines: int = 1
    tries: str = ""

    @classmethod
    def from_context(cls, context: StepContext, step: str = "") -> "Account":
        """Return the account of a step.

        Raises:
            UserError: when the config is not valid, or names a machine that nobody knows.
        """
        config, executor_input = context.config, context.args.executor_input
        machine = prices.current(config.costs.machine)
        prices.hourly(machine, config.costs.prices)
        before = _before(executor_input)
        if step != TRAINING:
            return cls(config.costs, machine, before)
        tries = _beside_output(executor_input)
        if tries and storage.exists(tries):
            before[step] = Spent(**storage.read_json(tries))
        return cls(config.costs, machine, before, config.task.trainer.nodes, tries)

    @property
    def spent(self) -> Spent:
        """All that was spent before this try of the step."""
        return sum(self.before.values(), Spent())

    @property
    def hourly(self) -> float | None:
        """US dollars an hour of this step's machines, None where no price is known."""
        one = prices.hourly(self.machine, self.costs.prices)
        return None if one is None else one * self.machines

    def verdict(self) -> Verdict:
        """Hold what was spent before this step to the budget.

        Raises:
            UserError: when the budget is in dollars and nobody knows what a machine costs.
        """
        budget, spent = self.costs.budget_usd, self.spent
        if budget is not None and (spent.usd is None or self.hourly is None):
            raise UserError(
                f"costs.budget_usd is {budget:g}, but nothing says what {self.machine or 'this machine'} costs; give "
                "costs.machine and its dollars an hour in costs.prices, or limit costs.budget_hours instead"
            )
        return judge(self.costs, spent)

    def left(self) -> float | None:
        """Return the seconds that this step may take, None where there is no limit."""
        limits = []
        if self.costs.budget_hours is not None:
            limits.append((self.costs.budget_hours * HOUR - self.spent.seconds) / self.machines)
        if self.costs.budget_usd is not None and self.hourly:
            limits.append((self.costs.budget_usd - (self.spent.usd or 0.0)) / self.hourly * HOUR)
        return min(limits, default=None)

    def after(self, step: str, seconds: float) -> dict[str, Any]:
        """Return what the step hands on: its machine, and what was spent up to its end."""
        entries = {**self.before, step: self._upto(step, seconds)}
        whole = {name: [round(entry.seconds, 3), entry.usd and round(entry.usd, 6)] for name, entry in entries.items()}
        return {"machine": self.machine, SPENT: json.dumps(whole)}

    def leave_spent(self, step: str, seconds: float) -> None:
        """Leave what the step has spent, for its next try; it stays: on AWS a step may not delete beside its output."""
        if not self.tries:
            return
        try:
            storage.write_json(self.tries, asdict(self._upto(step, seconds)))
        except (UserError, UnavailableError) as error:  # the step has its checkpoint, and is tried again all the same
            log.warning("what this try has spent is not counted: %s", error)

    def _upto(self, step: str, seconds: float) -> Spent:
        """Return what the step has spent, with a try that took so many seconds."""
        usd = None if self.hourly is None else seconds / HOUR * self.hourly
        return self.before.get(step, Spent()) + Spent(seconds * self.machines, usd)

    @contextmanager
    def within_budget(self, step: str, is_interrupted: bool = True) -> Iterator[None]:
        """Keep a step within the budget: before it works and, if it may be interrupted, to its end.

        Raises:
            UserError: when the budget is used up, before the step or while it works.
        """
        if not self.costs.has_budget:
            yield
            return
        verdict = self.verdict()
        if verdict.decision is Decision.FAIL:
            raise UserError(f"{step} is not started. {' '.join(verdict.reasons)} {NEXT}")
        seconds = self.left() if is_interrupted else None
        if seconds is None:
            yield
            return
        grace = GRACE if self.machines == 1 else MACHINES_GRACE
        with _limit_time(seconds, grace, f"{step} is stopped after {seconds:.1f} s. {_used_up(self.costs)} {NEXT}"):
            yield


NEXT = "Start a new run with a larger budget; days that are complete are not computed again."


def totals(metadata: Mapping[str, Any]) -> Mapping[str, Spent]:
    """Return what a step's metadata says of spending: step -> what it spent; empty where it says nothing."""
    entries = json.loads(metadata.get(SPENT) or "{}")
    return {name: Spent(seconds, usd) for name, (seconds, usd) in entries.items()}


def judge(costs: Costs, spent: Spent) -> Verdict:
    """Hold what was spent to a budget; without one, or a price, it passes."""
    limits = [("usd", spent.usd, costs.budget_usd), ("machine_hours", spent.seconds / HOUR, costs.budget_hours)]
    measures = [
        Measure(name=name, value=value, limit=limit, higher_is_better=False)
        for name, value, limit in limits
        if limit is not None or value is not None
    ]
    over = [
        measure
        for measure in measures
        if measure.limit is not None and measure.value is not None and measure.value >= measure.limit
    ]
    reasons = [
        f"{_amount(measure.name, measure.value)} of {_amount(measure.name, measure.limit)} are spent."
        for measure in over
    ]
    decision = Decision.FAIL if over else Decision.PASS
    return Verdict(gate="budget", decision=decision, reasons=reasons, measures=measures, subject="")


def _before(executor_input: Mapping[str, Any]) -> dict[str, Spent]:
    inputs = executor_input.get("inputs", {}).get("artifacts", {})
    spent: dict[str, Spent] = {}
    for value in inputs.values():
        spent |= totals(value["artifacts"][0].get("metadata", {}))
    return spent


def _beside_output(executor_input: Mapping[str, Any]) -> str:
    """Return a URI that is the same in every try of a step of a run, and in no other; empty without an output."""
    artifacts = executor_input.get("outputs", {}).get("artifacts", {}).values()
    uris = [value["artifacts"][0].get("uri") for value in artifacts]
    return f"{uris[0]}.spent.json" if uris and uris[0] else ""


def _used_up(costs: Costs) -> str:
    limits = {"usd": costs.budget_usd, "machine_hours": costs.budget_hours}
    return (
        f"The budget of {' or '.join(_amount(*limit) for limit in limits.items() if limit[1] is not None)} is used up."
    )


def _amount(name: str, value: float | None) -> str:
    return f"{value or 0:.4g} {'USD' if name == 'usd' else 'machine-hours'}"


class _StoppedError(BaseException):
    """The timer has run out; no handler of errors takes it for one of its own."""


@contextmanager
def _limit_time(seconds: float, grace: float, message: str) -> Iterator[None]:
    """Interrupt what runs in here after so many seconds, and end the process where that does not help in its grace.

    Raises:
        UserError: with the message, when it was interrupted.
    """

    def stop(*_: object) -> None:
        raise _StoppedError

    def end() -> None:  # native code returns late, or never
        log.error("%s", message)
        os._exit(2)

    last = threading.Timer(seconds + grace, end)
    last.daemon = True
    last.start()
    usual = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _StoppedError:
        raise UserError(message) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
        last.cancel()
