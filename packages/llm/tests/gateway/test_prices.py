"""What versions cost: exact, never more than was agreed, and within the budgets of keys."""

import asyncio
from pathlib import Path

import httpx
import pytest

from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift_llm.gateway.__main__ import body, parser
from nightshift_llm.gateway.budgets import Amount
from nightshift_llm.gateway.errors import BudgetError
from nightshift_llm.gateway.keys import ApiKey
from nightshift_llm.gateway.ledger import RECOVERED, Ledger, TokenUsage
from nightshift_llm.gateway.ledger_file import read_report
from nightshift_llm.gateway.prices import Prices, Rate, parse_prices
from nightshift_testkit.engines.simulated import MODEL, SimulatedReplica
from packages.llm.tests.gateway.conftest import key, routing

FILE = b"""
- {version: small, prompt: 0.1, completion: 0.4}
- {version: large, prompt: 2.5, completion: 0.3}
"""
KEY = ApiKey("team", "0" * 64, dollars_per_day=0.001)  # a million nanodollars


def test_prices_are_whole_nanodollars_a_token() -> None:
    prices = parse_prices("prices.yaml", FILE)
    assert prices.find_rate("small") == Rate(100, 400)
    assert prices.find_rate("small").cost(10, 2) == 1800
    assert prices.find_highest(["small", "large"]) == Rate(2500, 400)
    assert prices.find_rate("unpriced") == Rate(2500, 400)
    assert Prices().find_rate("any") == Rate(0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"- {version: a, prompt: 0.0001, completion: 1}", "prompt is 0.0001; give a multiple of 0.001"),
        (b"- {version: a, prompt: 1, completion: -1}", "completion is -1; give a multiple of 0.001"),
        (b"- {version: a, prompt: 1}", "missing required field `completion`"),
        (b"- {version: a, prompt: x, completion: 1}", "see packages/llm/docs/gateway.md for an example"),
        (b"- {version: a, prompt: .nan, completion: 1}", "prices 'prices.yaml'"),
        (b"[]", "prices 'prices.yaml' has none, so that no budget would be spent"),
        (FILE + b"- {version: small, prompt: 0, completion: 0}", "version 'small' is there twice"),
    ],
)
def test_a_wrong_file_is_refused_with_the_field(text: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_prices("prices.yaml", text)
    assert message in str(error.value)


def test_keys_with_a_budget_in_money_need_prices(tmp_path: Path) -> None:
    (tmp_path / "keys.yaml").write_text(f"- {{name: team, sha256: {'a' * 64}, dollars_per_day: 2.5}}\n")
    flags = ["--replica", "http://127.0.0.1:1", "--keys", str(tmp_path / "keys.yaml"), "--ledger", str(tmp_path / "l")]
    with pytest.raises(UserError, match="team has dollars_per_day, which needs prices; give --prices FILE"):
        body(StepContext(parser().parse_args(flags)))


def test_a_request_is_charged_by_its_version_and_never_more_than_at_its_admission(tmp_path: Path) -> None:
    async def work() -> None:
        ledger = Ledger(str(tmp_path / "ledger"))
        for rate in (Rate(100, 400), Rate(9999, 9999)):
            reservation = await ledger.reserve(KEY, Amount(200, 100_000), Rate(100, 500))
            ledger.settle(reservation, "small", TokenUsage(10, 2), rate)
        ledger.settle(await ledger.reserve(KEY, Amount(50, 7000), Rate(100, 500)), "large", None)
        await ledger.close()

    asyncio.run(work())
    assert {row.version: row.nanodollars for row in read_report(str(tmp_path / "ledger"))} == {
        "small": 1800 + 2000,
        "large": 7000,
    }


def test_what_was_spent_and_held_is_known_after_a_kill(tmp_path: Path) -> None:
    async def begin() -> None:
        ledger = Ledger(str(tmp_path / "ledger"))
        ledger.settle(
            await ledger.reserve(KEY, Amount(10, 600_000), Rate(100)), "small", TokenUsage(3000, 0), Rate(100)
        )
        await ledger.reserve(KEY, Amount(10, 500_000))
        await ledger.flush()

    async def go_on() -> None:
        ledger = Ledger(str(tmp_path / "ledger"))
        with pytest.raises(
            BudgetError, match=r"may cost up to 0.000201 dollars; team has 0.000200 of 0.001 left today"
        ):
            await ledger.reserve(KEY, Amount(1, 200_501))
        await ledger.reserve(KEY, Amount(1, 200_000))
        await ledger.close()

    asyncio.run(begin())
    asyncio.run(go_on())
    rows = {row.version: row.nanodollars for row in read_report(str(tmp_path / "ledger"))}
    assert rows == {"small": 300_000, RECOVERED: 500_000}


def test_a_key_spends_no_more_than_its_money_however_many_ask_at_once(tmp_path: Path) -> None:
    keys, prices = dict([key("team", dollars_per_day=0.004)]), parse_prices("prices", FILE)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 30}
    headers = {"authorization": "Bearer team"}

    async def ask(url: str) -> list[int]:
        async with httpx.AsyncClient(timeout=60) as client:
            posts = (client.post(f"{url}/v1/chat/completions", json=body, headers=headers) for _ in range(200))
            return [response.status_code for response in await asyncio.gather(*posts)]

    with routing([SimulatedReplica()], keys, tmp_path / "ledger", prices=prices) as gateway:
        statuses = asyncio.run(ask(gateway.url))
        page = httpx.get(f"{gateway.url}/metrics").text
    (row,) = read_report(str(tmp_path / "ledger"))
    assert set(statuses) == {200, 429}
    assert statuses.count(200) == row.requests
    assert row.nanodollars == Rate(2500, 400).cost(row.prompt_tokens, row.completion_tokens)  # an unpriced version
    assert row.nanodollars <= 4_000_000
    assert f'nightshift_gateway_dollars_total{{key="team"}} {row.nanodollars / 1e9:.6f}'[:-2] in page
