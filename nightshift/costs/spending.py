"""A run's spending, and the budget that stops it.

Each step records its own spending and that of the steps before it in the metadata of its artifacts, where every
engine's next step reads it: no graph, server or shared folder is needed. Before a step works, the sum is compared with
the config's `costs`; while it works, a timer ends it when the rest is used up. A preempted try leaves its spending
beside the step's output, for the next one. Not counted are steps that run at the same time, and tries that failed or
were killed.
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
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.costs import prices
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError, UserError

log = logging.getLogger("nightshift")

SPENT = "spent"
TRAINING = "training"  # the step that may take several machines, and resumes after a preemption
HOUR = 3600.0
# seconds for a step's cleanup after the timer's interruption; more where it releases machines
GRACE, MACHINES_GRACE = 10.0, 40.0


@dataclass(frozen=True)
class Spent:
    """The spending of one or more steps.

    Attributes:
        seconds: machine-seconds.
        usd: US dollars; None for a machine without a price.
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
        costs: costs and budgets of the use case.
        machine: machine of the step; empty if it is unknown.
        before: step -> spending; the steps before this one, and its own preempted tries.
        machines: number of machines of the step.
        tries: URI of the preempted tries' spending; empty for steps without any.
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
            UserError: when the config is not valid, or names an unknown machine.
        """
        config, executor_input = context.config, context.args.executor_input
        machine = prices.find_machine(config.costs.machine)
        prices.find_price(machine, config.costs.prices)
        before = _read_spent(executor_input, step)
        if step != TRAINING:
            return cls(config.costs, machine, before)
        tries = _build_tries_uri(executor_input)
        if tries and storage.exists(tries):
            before[step] = Spent(**storage.read_json(tries))
        return cls(config.costs, machine, before, config.task.trainer.nodes, tries)

    @property
    def spent(self) -> Spent:
        """Total spending before this try of the step."""
        return sum(self.before.values(), Spent())

    @property
    def usd_per_hour(self) -> float | None:
        """US dollars an hour of this step's machines; None without a price."""
        price = prices.find_price(self.machine, self.costs.prices)
        return None if price is None else price * self.machines

    def verdict(self) -> Verdict:
        """Compare the spending before this step with the budget.

        Raises:
            UserError: when the budget is in dollars and a machine has no price.
        """
        budget, spent = self.costs.budget_usd, self.spent
        if budget is not None and (spent.usd is None or self.usd_per_hour is None):
            raise UserError(
                f"costs.budget_usd is {budget:g}, but nothing says what {self.machine or 'this machine'} costs; give "
                "costs.machine and its dollars an hour in costs.prices, or limit costs.budget_hours instead"
            )
        return judge(self.costs, spent)

    def seconds_left(self) -> float | None:
        """Return the seconds left for this step; None without a limit."""
        limits = []
        if self.costs.budget_hours is not None:
            limits.append((self.costs.budget_hours * HOUR - self.spent.seconds) / self.machines)
        if self.costs.budget_usd is not None and self.usd_per_hour:
            limits.append((self.costs.budget_usd - (self.spent.usd or 0.0)) / self.usd_per_hour * HOUR)
        return min(limits, default=None)

    def hand_on(self, step: str, seconds: float) -> dict[str, Any]:
        """Return the metadata for the next steps: the machine, and the spending up to the end of this step."""
        entries = {**self.before, step: self._sum_spent(step, seconds)}
        whole = {name: [round(entry.seconds, 3), entry.usd and round(entry.usd, 6)] for name, entry in entries.items()}
        return {"machine": self.machine, SPENT: json.dumps(whole)}

    def leave_spent(self, step: str, seconds: float) -> None:
        """Save the step's spending for its next try; it stays: on AWS a step may not delete beside its output."""
        if not self.tries:
            return
        try:
            storage.write_json(self.tries, asdict(self._sum_spent(step, seconds)))
        except (UserError, UnavailableError) as error:  # the step has its checkpoint and is tried again anyway
            log.warning("what this try has spent is not counted: %s", error)

    def _sum_spent(self, step: str, seconds: float) -> Spent:
        """Return the step's spending, including a try of so many seconds."""
        usd = None if self.usd_per_hour is None else seconds / HOUR * self.usd_per_hour
        return self.before.get(step, Spent()) + Spent(seconds * self.machines, usd)

    @contextmanager
    def within_budget(self, step: str, is_interrupted: bool = True) -> Iterator[None]:
        """Check the budget before a step works and, if it may be interrupted, while it works.

        Raises:
            UserError: when the budget is used up.
        """
        if not self.costs.has_budget:
            yield
            return
        verdict = self.verdict()
        if verdict.decision is Decision.FAIL:
            raise UserError(f"{step} is not started. {' '.join(verdict.reasons)} {NEXT_STEP}")
        seconds = self.seconds_left() if is_interrupted else None
        if seconds is None:
            yield
            return
        grace = GRACE if self.machines == 1 else MACHINES_GRACE
        message = f"{step} is stopped after {seconds:.1f} s. {_describe_limits(self.costs)} {NEXT_STEP}"
        with _limit_time(seconds, grace, message):
            yield


USED_UP = "is used up"
NEXT_STEP = "Start a new run with a larger budget; days that are complete are not computed again."


def read_totals(metadata: Mapping[str, Any]) -> Mapping[str, Spent]:
    """Read step -> spending from an artifact's metadata; empty where it has none."""
    entries = json.loads(metadata.get(SPENT) or "{}")
    return {name: Spent(seconds, usd) for name, (seconds, usd) in entries.items()}


def judge(costs: Costs, spent: Spent) -> Verdict:
    """Compare spending with a budget; without a budget or a price it passes."""
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
        f"{_format_amount(measure.name, measure.value)} of {_format_amount(measure.name, measure.limit)} are spent."
        for measure in over
    ]
    decision = Decision.FAIL if over else Decision.PASS
    return Verdict(gate="budget", decision=decision, reasons=reasons, measures=measures, subject="")


def _read_spent(executor_input: Mapping[str, Any], step: str) -> dict[str, Spent]:
    """Return step -> spending before a step; that of its own shards, which each have its name, is added up."""
    inputs = executor_input.get("inputs", {}).get("artifacts", {})
    spent: dict[str, Spent] = {}
    for artifact in (artifact for value in inputs.values() for artifact in value["artifacts"]):
        totals = dict(read_totals(artifact.get("metadata", {})))
        if step in totals:
            totals[step] += spent.get(step, Spent())
        spent |= totals
    return spent


def _build_tries_uri(executor_input: Mapping[str, Any]) -> str:
    """Return a URI shared by the tries of one step of a run; empty without an output."""
    artifacts = executor_input.get("outputs", {}).get("artifacts", {}).values()
    uris = [value["artifacts"][0].get("uri") for value in artifacts]
    return f"{uris[0]}.spent.json" if uris and uris[0] else ""


def _describe_limits(costs: Costs) -> str:
    limits = {"usd": costs.budget_usd, "machine_hours": costs.budget_hours}
    amounts = [_format_amount(name, limit) for name, limit in limits.items() if limit is not None]
    return f"The budget of {' or '.join(amounts)} {USED_UP}."


def _format_amount(name: str, value: float | None) -> str:
    return f"{value or 0:.4g} {'USD' if name == 'usd' else 'machine-hours'}"


class _StoppedError(BaseException):
    """The timer has expired; a BaseException, so that no step handles it."""


@contextmanager
def _limit_time(seconds: float, grace: float, message: str) -> Iterator[None]:
    """Interrupt the block after some seconds, and end the process if it still runs after the grace period.

    Raises:
        UserError: with the message, when the block was interrupted.
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
