"""Budgets as a state machine: requests that reserve and settle, in any order, over days and minutes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nightshift.gateway.budgets import DAY, MINUTE, KeyBudget, Limits, Outcome

LIMITS = Limits(tokens_per_day=100, requests_per_minute=5)
NOON = 1000.5 * DAY


def test_a_request_that_fits_once_others_return_their_tokens_waits_and_one_that_never_fits_is_refused() -> None:
    budget = KeyBudget()
    assert budget.admit(LIMITS, 70, NOON) is Outcome.ADMITTED
    assert budget.admit(LIMITS, 31, NOON) is Outcome.WAITING
    assert budget.admit(LIMITS, 101, NOON) is Outcome.OVER_BUDGET
    budget.settle(budget.day, 70, used=10)
    assert budget.admit(LIMITS, 91, NOON) is Outcome.OVER_BUDGET
    assert budget.admit(LIMITS, 90, NOON) is Outcome.ADMITTED


def test_a_minute_admits_its_requests_and_the_next_one_as_many() -> None:
    budget, limits = KeyBudget(), Limits(requests_per_minute=2)
    outcomes = [budget.admit(limits, 10**9, NOON + seconds) for seconds in (0, MINUTE - 1, MINUTE - 1, MINUTE)]
    assert outcomes == [Outcome.ADMITTED, Outcome.ADMITTED, Outcome.OVER_RATE, Outcome.ADMITTED]


def test_a_reservation_of_yesterday_takes_nothing_from_today_and_a_clock_set_back_gives_nothing() -> None:
    budget = KeyBudget()
    budget.admit(LIMITS, 100, NOON)
    yesterday = budget.day
    assert budget.admit(LIMITS, 100, NOON + DAY) is Outcome.ADMITTED
    budget.settle(yesterday, 100, used=100)
    assert (budget.reserved, budget.spent) == (100, 0)
    assert budget.admit(LIMITS, 1, NOON) is Outcome.WAITING


def test_days_and_minutes_that_are_far_ahead_were_a_wrong_clock_and_end() -> None:
    budget, limits = KeyBudget(), Limits(tokens_per_day=100, requests_per_minute=1)
    outcomes = [budget.admit(limits, 100, NOON + seconds) for seconds in (30 * DAY, 0, 0)]
    assert outcomes == [Outcome.ADMITTED, Outcome.ADMITTED, Outcome.OVER_RATE]
    budget = KeyBudget()
    steps = [10 * MINUTE, 5 * MINUTE, 4 * MINUTE]
    outcomes = [budget.admit(Limits(requests_per_minute=1), 1, NOON + seconds) for seconds in steps]
    assert outcomes == [Outcome.ADMITTED, Outcome.OVER_RATE, Outcome.ADMITTED]


class BudgetMachine(RuleBasedStateMachine):
    """Compares a budget with lists of what was admitted and used."""

    def __init__(self) -> None:
        super().__init__()
        self.budget, self.now = KeyBudget(), NOON
        self.open: list[tuple[int, int]] = []
        self.used: list[tuple[int, int]] = []
        self.admitted: list[float] = []

    def on(self, day: int, tokens: list[tuple[int, int]]) -> int:
        return sum(number for its_day, number in tokens if its_day == day)

    @rule(tokens=st.integers(1, 130))
    def ask(self, tokens: int) -> None:
        day, minute = int(self.now // DAY), self.now // MINUTE
        left = 100 - self.on(day, self.used)
        rate = sum(time // MINUTE == minute for time in self.admitted)
        if tokens > left:
            expected = Outcome.OVER_BUDGET
        elif rate >= 5:
            expected = Outcome.OVER_RATE
        else:
            expected = Outcome.WAITING if tokens > left - self.on(day, self.open) else Outcome.ADMITTED
        assert self.budget.admit(LIMITS, tokens, self.now) is expected
        if expected is Outcome.ADMITTED:
            self.open.append((day, tokens))
            self.admitted.append(self.now)

    @rule(share=st.floats(0, 1), index=st.integers(0, 50))
    def settle(self, share: float, index: int) -> None:
        if self.open:
            day, tokens = self.open.pop(index % len(self.open))
            used = int(tokens * share)
            self.budget.settle(day, tokens, used)
            self.used.append((day, used))

    @rule(seconds=st.sampled_from([1, 30, MINUTE, DAY]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def nothing_is_overspent(self) -> None:
        assert self.budget.spent + self.budget.reserved <= 100


BudgetMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBudgetMachine = BudgetMachine.TestCase
