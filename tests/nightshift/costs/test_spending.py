"""What a run has spent is handed on from step to step, and stops it."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nightshift.config.policy import Costs
from nightshift.contracts.verdict import Decision
from nightshift.costs import prices
from nightshift.costs.spending import Account, Spent, judge, read_totals
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from pipelines import configs

SCRIPT = """
import time
from nightshift.runtime import errors, flags, step

def body(context):
    print("working", flush=True)
    {body}

step.run(flags.StepParser("training", "A sample.", acts={acts}).takes(config="the config"), body)
"""


def config(**costs: Any) -> str:
    return json.dumps(configs.load("fraud") | {"costs": costs})


def inputs(*metadata: dict[str, Any]) -> dict[str, Any]:
    named = {f"input{number}": {"artifacts": [{"metadata": fields}]} for number, fields in enumerate(metadata)}
    return {"inputs": {"artifacts": named}}


def account(*metadata: dict[str, Any], **costs: Any) -> Account:
    return Account.from_context(context(config(**costs), inputs(*metadata)))


def context(config: str, executor_input: dict[str, Any]) -> StepContext:
    return StepContext(argparse.Namespace(config=config, executor_input=executor_input))


def ran(
    folder: Path, body: str, spent: dict[str, Any], acts: bool = False, **costs: Any
) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run a step as an engine does; return how it went and the metadata that it handed on."""
    script, output = folder / "sample.py", folder / "executor_output.json"
    script.write_text(SCRIPT.format(body=body, acts=acts))
    artifacts = {"artifacts": {"model": {"artifacts": [{"name": "model", "uri": str(folder / "model")}]}}}
    kfp_input = inputs({"spent": json.dumps(spent)}) | {"outputs": artifacts | {"outputFile": str(output)}}
    words = [sys.executable, str(script), "--config", config(**costs), "--executor-input", json.dumps(kfp_input)]
    environment = {name: value for name, value in os.environ.items() if name != prices.MACHINE}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env=environment)
    metadata = (
        json.loads(output.read_text())["artifacts"]["model"]["artifacts"][0]["metadata"] if output.exists() else None
    )
    return done, metadata


@pytest.mark.slow
def test_a_step_hands_on_what_it_and_those_before_it_have_spent(tmp_path: Path) -> None:
    before = {"ingestion": [1800.0, 0.25]}

    done, metadata = ran(tmp_path, "time.sleep(0.2)", before, machine="box", prices={"box": 0.5})

    spent = read_totals(metadata)
    assert done.returncode == 0, done.stderr
    assert metadata["machine"] == "box"
    assert spent["ingestion"] == Spent(1800.0, 0.25)
    assert spent["training"].seconds >= 0.2
    assert spent["training"].usd == pytest.approx(spent["training"].seconds / 3600 * 0.5, abs=1e-6)


def test_a_step_that_two_others_read_from_is_counted_once() -> None:
    shared = {"ingestion": [100.0, 0.1]}
    left, right = shared | {"features": [50.0, 0.05]}, shared | {"training": [20.0, 0.02]}

    totals = account({"spent": json.dumps(left)}, {"spent": json.dumps(right)}, {})

    assert totals.spent == Spent(170.0, pytest.approx(0.17))


def test_what_a_steps_own_shards_have_spent_is_added_up_and_what_came_before_them_is_counted_once() -> None:
    shards = [{"spent": json.dumps({"ingestion": [10.0, 0.0], "features": [seconds, 0.0]})} for seconds in (20.0, 30.0)]
    collected = {"computed": {"artifacts": [{"metadata": fields} for fields in shards]}}

    before = Account.from_context(context(config(), {"inputs": {"artifacts": collected}}), "features").before
    assert {name: spent.seconds for name, spent in before.items()} == {"ingestion": 10.0, "features": 50.0}


def test_a_machine_nobody_has_priced_costs_an_unknown_amount_not_nothing() -> None:
    totals = account({"spent": json.dumps({"ingestion": [100.0, None]})})

    assert totals.spent == Spent(100.0, None)
    assert read_totals(totals.hand_on("features", 10.0))["features"] == Spent(10.0, None)


def test_a_price_of_zero_is_a_price() -> None:
    totals = account(machine="laptop", prices={"laptop": 0.0}, budget_usd=1)

    assert read_totals(totals.hand_on("features", 10.0))["features"] == Spent(10.0, 0.0)
    assert totals.seconds_left() is None
    with totals.within_budget("features"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("costs", "words"),
    (
        ({"machine": "box", "prices": {"box": 2.0}, "budget_usd": 0.5}, "0.6 USD of 0.5 USD are spent."),
        ({"budget_hours": 0.25}, "0.3 machine-hours of 0.25 machine-hours are spent."),
    ),
)
def test_a_step_is_not_started_when_the_budget_is_used_up(tmp_path: Path, costs: dict[str, Any], words: str) -> None:
    done, metadata = ran(tmp_path, "pass", {"ingestion": [1080.0, 0.6]}, **costs)

    assert done.returncode == 2
    assert "working" not in done.stdout
    assert metadata is None
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"training: training is not started. {words} Start a new run with a larger budget")


@pytest.mark.slow
@pytest.mark.parametrize("body", ("time.sleep(60)", "\n    while True: exec('sum(range(10**5))')"))
def test_a_step_is_stopped_when_what_was_left_of_the_budget_is_used_up(tmp_path: Path, body: str) -> None:
    started = time.monotonic()

    # 3 of 3603 seconds are left
    done, _ = ran(tmp_path, body, {"ingestion": [3600.0, None]}, budget_hours=3603 / 3600)

    assert done.returncode == 2
    assert done.stdout == "working\n"
    assert "training: training is stopped after 3.0 s. The budget of 1.001 machine-hours is used up." in done.stderr
    assert time.monotonic() - started < 50


@pytest.mark.slow
def test_a_step_that_changes_what_others_use_is_not_stopped_on_the_way(tmp_path: Path) -> None:
    done, output = ran(tmp_path, "time.sleep(1)", {"ingestion": [3600.0, None]}, acts=True, budget_hours=3600.1 / 3600)

    assert (done.returncode, done.stderr) == (0, "")
    assert read_totals(output)["training"].seconds >= 1


@pytest.mark.slow
def test_a_machine_that_nobody_knows_is_named_before_the_work(tmp_path: Path) -> None:
    done, _ = ran(tmp_path, "pass", {}, machine="bx", prices={"box": 1.0})

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("training: machine 'bx' has no price; known: ")


@pytest.mark.slow
def test_a_step_within_its_budget_is_left_alone(tmp_path: Path) -> None:
    done, metadata = ran(tmp_path, "pass", {}, machine="box", prices={"box": 1.0}, budget_usd=1.0, budget_hours=1.0)

    assert (done.returncode, done.stderr) == (0, "")
    assert "training" in read_totals(metadata)


def test_a_budget_in_dollars_without_a_price_is_refused_with_what_to_give() -> None:
    with pytest.raises(
        UserError, match=r"costs.budget_usd is 5, but nothing says what this machine costs; give costs.m"
    ):
        account(budget_usd=5).verdict()
    with pytest.raises(UserError, match=r"nothing says what box costs"):
        account({"spent": json.dumps({"a": [1.0, None]})}, machine="box", prices={"box": 1}, budget_usd=5).verdict()


def test_the_verdict_has_the_shape_of_every_gate() -> None:
    verdict = judge(Costs(budget_usd=1.0), Spent(3600.0, 1.5))

    assert (verdict.gate, verdict.decision) == ("budget", Decision.FAIL)
    assert (verdict.value("usd"), verdict.value("machine_hours")) == (1.5, 1.0)
    assert judge(Costs(budget_usd=2.0), Spent(3600.0, 1.5)).is_pass


def test_what_is_left_is_the_smaller_of_both_limits() -> None:
    spent = {"spent": json.dumps({"ingestion": [1800.0, 1.0]})}
    box = {"machine": "box", "prices": {"box": 4.0}}

    assert account(spent, **box, budget_usd=2.0, budget_hours=10).seconds_left() == 900
    assert account(spent, **box, budget_usd=20.0, budget_hours=1).seconds_left() == 1800


def test_a_price_of_the_users_goes_before_the_table_and_an_unknown_machine_is_refused() -> None:
    table = prices.read_machines()["g6.2xlarge"].usd["spot"]

    assert prices.find_price("g6.2xlarge spot", {}) == table
    assert prices.find_price("g6.2xlarge spot", {"g6.2xlarge spot": 0.1}) == 0.1
    assert prices.find_price("", {}) is None
    with pytest.raises(UserError, match=r"machine 'g6.2xlarge sport' has no price; .*did you mean 'g6.2xlarge spot'"):
        prices.find_price("g6.2xlarge sport", {})


def test_every_known_price_has_a_source_and_a_day() -> None:
    for machine in prices.read_machines().values():
        known = [usd for usd in machine.usd.values() if usd is not None]
        assert not known or (machine.source.startswith("https://") and machine.date), machine.name
        assert bool(machine.gpu) == bool(machine.gpus)


def test_a_training_on_several_machines_is_charged_for_all_of_them() -> None:
    costs = {"machine": "box", "prices": {"box": 0.5}, "budget_hours": 2}
    whole = json.loads(config(**costs))
    whole["task"]["trainer"] = {"nodes": 4}
    several = context(json.dumps(whole), {})

    training, other = (Account.from_context(several, step) for step in ("training", "evaluation"))

    assert (training.usd_per_hour, other.usd_per_hour) == (2.0, 0.5)
    assert (training.seconds_left(), other.seconds_left()) == (1800.0, 7200.0)
    assert read_totals(training.hand_on("training", 900.0))["training"] == Spent(3600.0, 0.5)


@pytest.mark.slow
def test_what_a_try_has_spent_that_was_preempted_is_handed_on_with_the_next_ones(tmp_path: Path) -> None:
    box = {"machine": "box", "prices": {"box": 3600.0}}

    preempted, nothing = ran(tmp_path, "time.sleep(0.2); raise errors.PreemptedError('saved')", {}, **box)
    done, metadata = ran(tmp_path, "pass", {}, **box)

    assert (preempted.returncode, nothing) == (75, None)
    assert preempted.stderr == "training: preempted; saved\n"
    assert (done.returncode, done.stderr) == (0, "")
    spent = read_totals(metadata)["training"]
    assert 0.2 <= spent.seconds < 60
    assert spent.usd == pytest.approx(spent.seconds, abs=0.01)
    # nothing is removed, which a step may have no right to
    assert Account.from_context(tried(tmp_path, config(**box)), "training").spent.seconds >= 0.2


def tried(folder: Path, config: str) -> StepContext:
    """The context of a try of a step with an output."""
    artifacts = {"artifacts": {"model": {"artifacts": [{"uri": str(folder / "model")}]}}}
    return context(config, {"outputs": artifacts})


def test_tries_that_were_preempted_use_the_budget_up(tmp_path: Path) -> None:
    def again() -> Account:
        return Account.from_context(tried(tmp_path, json.dumps(whole)), "training")

    whole = json.loads(config(budget_hours=1))
    whole["task"]["trainer"] = {"nodes": 2}
    seen = []
    for _ in range(3):
        seen.append(again().seconds_left())
        again().leave_spent("training", 800)

    assert seen == [1800, 1000, 200]
    assert again().spent == Spent(4800.0, None)
    with pytest.raises(UserError, match=r"training is not started. 1.333 machine-hours of 1 machine-hours are spent."):
        again().within_budget("training").__enter__()


@pytest.mark.slow
def test_a_try_whose_spending_cannot_be_written_is_preempted_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "model.spent.json.tmp").mkdir()

    done, _ = ran(tmp_path, "raise errors.PreemptedError('saved')", {})

    assert done.returncode == 75
    assert "what this try has spent is not counted: " in done.stderr
