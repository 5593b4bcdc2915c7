"""The cheapest fleet that keeps a promise, and what is said of replicas that cannot."""

from dataclasses import replace

import pytest

from nightshift.costs.prices import Machine, read_machines
from nightshift.runtime.errors import UserError
from nightshift_perf.hardware import gpu
from nightshift_perf.planning.serving import fleet
from nightshift_perf.planning.serving.batching import RequestLength, operate
from nightshift_perf.planning.serving.fleet import Demand, Objective, plan_fleets
from nightshift_perf.planning.serving.replica import ServingReplica
from nightshift_perf.planning.serving.shapes import read_shape

MACHINES = [read_machines()[name] for name in ("p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge")]
CHAT = Demand(read_shape("llama3-70b"), RequestLength(1024, 256), 100, Objective(0.5, 0.05))


def test_a_fleet_keeps_its_promise_for_the_whole_rate_on_whole_machines() -> None:
    search = plan_fleets(CHAT, MACHINES)

    assert search.plans == sorted(search.plans, key=lambda plan: plan.usd_per_hour)
    for plan in search.plans:
        assert plan.point.first_token_p99 <= 0.5 and plan.point.token <= 0.05
        assert plan.replicas * plan.point.rate >= 100 > (plan.replicas - 1) * plan.point.rate
        assert plan.machines * (8 // plan.replica.tensor) >= plan.replicas
        assert plan.point.concurrency * (1024 + 256) < plan.replica.cache_tokens
        assert plan.usd_per_million == pytest.approx(plan.usd_per_hour / (100 * 256 * 3600) * 1e6)


def test_one_more_request_in_flight_would_break_the_promise_or_overfill_the_cache() -> None:
    for plan in plan_fleets(CHAT, MACHINES).plans:
        more = operate(plan.replica, CHAT.request, plan.point.concurrency + 1)

        is_full = plan.point.concurrency == fleet.count_requests(plan.replica, CHAT.request)
        assert is_full or more.first_token_p99 > 0.5 or more.token > 0.05


def test_a_loose_first_token_leaves_the_promise_per_token() -> None:
    patient = plan_fleets(replace(CHAT, objective=Objective(10, 0.03)), MACHINES)

    assert patient.plans and all(plan.point.token <= 0.03 for plan in patient.plans)


def test_peaks_of_the_requests_in_flight_fit_in_the_cache() -> None:
    replica = ServingReplica(CHAT.model, gpu("h100-80gb"), "fp8", 2)
    room = replica.cache_tokens // (1024 + 256)

    count = fleet.count_requests(replica, CHAT.request)

    assert count + 2.33 * count**0.5 <= room < count + 1 + 2.33 * (count + 1) ** 0.5


def test_the_cheapest_plan_stands_for_each_machine_and_market() -> None:
    search = plan_fleets(CHAT, MACHINES)

    assert set(search.cheapest) == {(machine.name, market) for machine in MACHINES for market in ("on-demand", "spot")}
    for (name, market), cheapest in search.cheapest.items():
        others = [plan for plan in search.plans if (plan.machine.name, plan.market) == (name, market)]
        assert cheapest.usd_per_hour == min(plan.usd_per_hour for plan in others)


def test_every_replica_is_planned_or_rejected_with_the_figure_and_its_limit() -> None:
    search = plan_fleets(replace(CHAT, objective=Objective(0.2, 0.02)), MACHINES)

    reasons = [str(rejection) for rejection in search.rejections]
    planned = {(plan.replica.gpu.name, plan.replica.precision, plan.replica.tensor) for plan in search.plans}
    assert len(reasons) + len(planned) == 4 + 3 * 8  # A100 has no FP8
    assert reasons[0] == (
        "1 x a100-80gb, bf16: weights of 131.4 GiB leave no room for a request's cache in 79.1 GiB per GPU"
    )
    assert any(reason.startswith("4 x a100-80gb, bf16: the first token takes ") for reason in reasons)
    assert all(reason.endswith((", above 200", ", above 20.0", "per GPU")) for reason in reasons)


def test_a_stricter_promise_and_a_longer_prompt_cost_more() -> None:
    def usd(demand: Demand) -> float:
        return plan_fleets(demand, MACHINES).plans[0].usd_per_million

    assert (
        usd(replace(CHAT, objective=Objective(0.3, 0.05)))
        > usd(CHAT)
        > usd(replace(CHAT, request=RequestLength(256, 256)))
    )


def test_weights_of_4_bits_leave_more_room_are_computed_in_16_bits_and_marked_as_not_fitted() -> None:
    replicas = {name: ServingReplica(CHAT.model, gpu("a100-80gb"), name, 2) for name in ("bf16", "int4")}
    weights = {name: replica.weights for name, replica in replicas.items()}
    a100 = plan_fleets(replace(CHAT, precisions=("int4",), objective=Objective(2, 0.05)), MACHINES[:1]).plans

    assert weights["int4"] / weights["bf16"] < 0.3
    assert replicas["int4"].token_bytes == replicas["bf16"].token_bytes
    assert a100 and not replicas["int4"].is_fitted and replicas["bf16"].is_fitted


def test_a_machine_without_a_price_is_not_offered() -> None:
    unpriced = replace(MACHINES[1], usd={"on-demand": None})

    assert not plan_fleets(CHAT, [unpriced]).plans


def test_a_replica_stays_on_one_machine_and_shares_whole_heads() -> None:
    small = Machine("small", "aws", "us-east-1", 16, {"on-demand": 1.0}, "h100-80gb", 2)
    odd = replace(read_shape("llama3-8b"), groups=6, heads=36, hidden=36 * 128)

    assert {replica.tensor for replica in fleet.list_replicas(CHAT, small)} == {1, 2}
    assert {replica.tensor for replica in fleet.list_replicas(replace(CHAT, model=odd), MACHINES[1])} == {1, 2}


@pytest.mark.parametrize(
    ("demand", "message"),
    (
        (replace(CHAT, rate=0), r"--rate is 0; give a number above 0"),
        (replace(CHAT, request=RequestLength(-1, 256)), r"--prompt-tokens is -1"),
        (replace(CHAT, request=RequestLength(1, 0)), r"--output-tokens is 0"),
        (replace(CHAT, objective=Objective(0, 1)), r"--first-token-ms is 0"),
        (replace(CHAT, objective=Objective(1, float("nan"))), r"--token-ms is nan"),
        (replace(CHAT, precisions=("int3",)), r"--precision is int3; give one of bf16, fp8, int4, or none"),
        (replace(CHAT, tensors=(3,)), r"--tensor is 3; give one of 1, 2, 4, 8, or none"),
    ),
)
def test_a_demand_that_cannot_be_is_refused_by_its_flag(demand: Demand, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fleet.check_demand(demand)
