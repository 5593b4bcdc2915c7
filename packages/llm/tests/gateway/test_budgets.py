"""Budgets as a state machine: requests that reserve and settle, in any order, over days and minutes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nightshift_llm.gateway.budgets import DAY, MINUTE, UNLIMITED, Amount, DayUsage, KeyBudget, Limits, Outcome

LIMITS = Limits(Amount(100, UNLIMITED), requests_per_minute=5)
NOON = 1000.5 * DAY


def test_a_request_that_fits_once_others_return_their_tokens_waits_and_one_that_never_fits_is_refused() -> None:
    budget = KeyBudget()
    assert budget.admit(LIMITS, Amount(70), NOON) is Outcome.ADMITTED
    assert budget.admit(LIMITS, Amount(31), NOON) is Outcome.WAITING
    assert budget.admit(LIMITS, Amount(101), NOON) is Outcome.OVER_BUDGET
    budget.settle(budget.day, Amount(70), Amount(10))
    assert budget.admit(LIMITS, Amount(91), NOON) is Outcome.OVER_BUDGET
    assert budget.admit(LIMITS, Amount(90), NOON) is Outcome.ADMITTED


def test_a_minute_admits_its_requests_and_the_next_one_as_many() -> None:
    budget, limits = KeyBudget(), Limits(requests_per_minute=2)
    outcomes = [budget.admit(limits, Amount(10**9), NOON + seconds) for seconds in (0, MINUTE - 1, MINUTE - 1, MINUTE)]
    assert outcomes == [Outcome.ADMITTED, Outcome.ADMITTED, Outcome.OVER_RATE, Outcome.ADMITTED]


def test_a_reservation_of_yesterday_takes_nothing_from_today_and_a_clock_set_back_gives_nothing() -> None:
    budget = KeyBudget()
    budget.admit(LIMITS, Amount(100), NOON)
    yesterday = budget.day
    assert budget.admit(LIMITS, Amount(100), NOON + DAY) is Outcome.ADMITTED
    budget.settle(yesterday, Amount(100), Amount(100))
    assert budget.today == DayUsage(spent=Amount(0), reserved=Amount(100))
    assert budget.admit(LIMITS, Amount(1), NOON) is Outcome.OVER_BUDGET


def test_days_and_minutes_that_are_far_ahead_were_a_wrong_clock_and_end() -> None:
    budget, limits = KeyBudget(), Limits(Amount(100, UNLIMITED), requests_per_minute=1)
    outcomes = [budget.admit(limits, Amount(100), NOON + seconds) for seconds in (30 * DAY, 0, 0)]
    assert outcomes == [Outcome.ADMITTED, Outcome.ADMITTED, Outcome.OVER_RATE]
    budget = KeyBudget()
    steps = [10 * MINUTE, 5 * MINUTE, 4 * MINUTE]
    outcomes = [budget.admit(Limits(requests_per_minute=1), Amount(1), NOON + seconds) for seconds in steps]
    assert outcomes == [Outcome.ADMITTED, Outcome.OVER_RATE, Outcome.ADMITTED]


def test_money_is_a_limit_of_its_own() -> None:
    budget, limits = KeyBudget(), Limits(Amount(100, 1000))
    assert budget.admit(limits, Amount(10, 700), NOON) is Outcome.ADMITTED
    assert budget.admit(limits, Amount(10, 301), NOON) is Outcome.WAITING
    assert budget.admit(limits, Amount(91, 1), NOON) is Outcome.WAITING
    assert budget.admit(limits, Amount(1, 1001), NOON) is Outcome.OVER_BUDGET
    budget.settle(budget.day, Amount(10, 700), Amount(5, 200))
    assert budget.admit(limits, Amount(1, 801), NOON) is Outcome.OVER_BUDGET
    assert budget.admit(limits, Amount(95, 800), NOON) is Outcome.ADMITTED
    assert budget.remaining(limits) == Amount(95, 800)


class BudgetMachine(RuleBasedStateMachine):
    """Compares a budget with lists of what was admitted and used; a token costs what the machine draws."""

    limits = Limits(Amount(100, 1000), requests_per_minute=5)

    def __init__(self) -> None:
        super().__init__()
        self.budget, self.now = KeyBudget(lambda day: self.on(day, self.used)), NOON
        self.open: list[tuple[int, Amount]] = []
        self.used: list[tuple[int, Amount]] = []
        self.admitted: list[float] = []

    def on(self, day: int, amounts: list[tuple[int, Amount]]) -> Amount:
        own = [amount for its_day, amount in amounts if its_day == day]
        return Amount(sum(amount.tokens for amount in own), sum(amount.nanodollars for amount in own))

    def fits(self, amount: Amount, *held: Amount) -> bool:
        return all(
            amount[unit] + sum(other[unit] for other in held) <= self.limits.per_day[unit]
            for unit in range(len(amount))
        )

    @rule(tokens=st.integers(1, 130), price=st.integers(1, 20))
    def ask(self, tokens: int, price: int) -> None:
        day, minute, amount = int(self.now // DAY), self.now // MINUTE, Amount(tokens, tokens * price)
        used, held = self.on(day, self.used), self.on(day, self.open)
        rate = sum(time // MINUTE == minute for time in self.admitted)
        if not self.fits(amount, used):
            expected = Outcome.OVER_BUDGET
        elif rate >= 5:
            expected = Outcome.OVER_RATE
        else:
            expected = Outcome.ADMITTED if self.fits(amount, used, held) else Outcome.WAITING
        assert self.budget.admit(self.limits, amount, self.now) is expected
        if expected is Outcome.ADMITTED:
            self.open.append((day, amount))
            self.admitted.append(self.now)

    @rule(share=st.floats(0, 1), index=st.integers(0, 50))
    def settle(self, share: float, index: int) -> None:
        if self.open:
            day, amount = self.open.pop(index % len(self.open))
            used = Amount(*(int(number * share) for number in amount))
            self.budget.settle(day, amount, used)
            self.used.append((day, used))

    @rule(seconds=st.sampled_from([1, 30, MINUTE, DAY, 3 * DAY, 40 * DAY]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(days=st.sampled_from([1, 2, 3, 40]))
    def set_clock_back(self, days: int) -> None:
        self.now -= days * DAY
        self.admitted = []  # rates know one minute

    @invariant()
    def nothing_is_overspent(self) -> None:
        for day in {day for day, _ in self.used + self.open}:
            assert self.fits(Amount(0), self.on(day, self.used), self.on(day, self.open))


BudgetMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBudgetMachine = BudgetMachine.TestCase
