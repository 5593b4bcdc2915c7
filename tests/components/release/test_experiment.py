"""What a plan says of tests and money, by the functions that judge releases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.release import experiment, verdicts
from components.release.experiment import LIKELY, MEDIAN, ExperimentUse, Power
from nightshift.config.policy import Costs, Rollout
from nightshift.contracts.verdict import Decision
from nightshift.stats.sequential import LossSums
from tests.components.release import releases

USD = st.none() | st.floats(0, 1000)


def draw_days(gain: float, rare: int = 20, count: int = 500) -> list[dict[str, LossSums]]:
    """A week on which the challenger's errors are smaller by a gain, with a rare slice."""
    random, days = np.random.default_rng(0), []
    for _ in range(7):
        error = random.beta(1, 9, count)
        losses = error, np.clip(error * (1 - gain) + random.normal(0, 0.02, count), 0, 1)
        sums = {verdicts.ALL: LossSums.from_losses(*losses)}
        days.append(sums | {"country is NZ": LossSums.from_losses(*(loss[:rare] for loss in losses))})
    return days


def test_the_slice_with_the_fewest_labels_decides_last():
    power = Power.from_days(draw_days(0.1), Rollout(slices=["country"], horizon_days=90))

    whole = Power.from_days([{verdicts.ALL: day[verdicts.ALL]} for day in draw_days(0.1)], power.rollout)
    assert power.plan(MEDIAN).slowest == "loss where country is NZ"
    assert whole.plan(MEDIAN).days < power.plan(MEDIAN).days <= power.plan(LIKELY).days


def test_no_plan_is_shorter_than_the_stages_of_a_release():
    power = Power.from_days(draw_days(0.5, rare=5000, count=5000), Rollout(stage_days=2, shares=[0.1, 0.5]))

    assert power.plan(MEDIAN).days == 6


def test_a_version_that_is_not_better_has_no_duration():
    power = Power.from_days(draw_days(-0.1), Rollout())

    assert power.plan(MEDIAN).days is None
    assert power.harm_days


@given(USD, st.lists(USD, max_size=5), st.integers(0, 10**6), st.none() | st.floats(0, 1))
def test_a_ledger_adds_up_to_the_cent_and_leaves_out_what_has_no_price(training, judging, labels, label_usd):
    runs = {f"release-{number}": usd for number, usd in enumerate(judging)}
    use = ExperimentUse({"training-1": training}, runs, 1.5, 0.25, labels)

    costs = experiment.price(use, Costs(label_usd=label_usd))

    cents = [round(100 * cost.usd) for cost in costs if cost.usd is not None]
    assert round(100 * experiment.add_costs(costs)) == sum(cents)
    unpriced = {cost.item for cost in costs if cost.usd is None}
    wanted = {"training": training is None, "judging": None in judging, "labels": label_usd is None and labels > 0}
    assert unpriced == {"serving", "storage"} | {item for item, is_unpriced in wanted.items() if is_unpriced}


@pytest.mark.parametrize(("budget", "decision"), [(1.01, Decision.PASS), (1.0, Decision.FAIL), (0.5, Decision.FAIL)])
def test_a_budget_fails_once_it_is_spent(budget, decision):
    costs = experiment.price(ExperimentUse({"training-1": 1.0}, {}, 0, 0, 0), Costs())

    assert experiment.check_budget(budget, costs, releases.started()).decision is decision
