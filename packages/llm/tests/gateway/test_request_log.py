"""The log of requests: what it holds of each, and what it never holds."""

import asyncio
import re
from pathlib import Path

import httpx
import pytest

from nightshift.runtime.errors import UserError
from nightshift_llm.gateway.request_log import (
    BUCKETS,
    INTERRUPTED,
    RequestLog,
    RequestRecord,
    find_day,
    now,
    read_records,
    sketch_prompt,
)
from nightshift_testkit.engines.simulated import MODEL, SimulatedReplica
from nightshift_testkit.processes import wait_until
from packages.llm.tests.gateway.conftest import key, routing

SECRET = "my number is 4711-0815"


def ask(url: str, bearer: str = "search", **fields: object) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": SECRET}], "max_tokens": 20} | fields
    return httpx.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {bearer}"})


def test_it_holds_sizes_tokens_and_outcomes_and_no_text(tmp_path: Path) -> None:
    keys = dict([key("search", tokens_per_day=2000)])
    with routing([SimulatedReplica()], keys, tmp_path / "ledger.db", tmp_path / "log") as gateway:
        whole = ask(gateway.url).json()["usage"]
        assert ask(gateway.url, stream=True).text.endswith("data: [DONE]\n\n")
        statuses = [
            ask(gateway.url, max_tokens=100_000).status_code,
            ask(gateway.url, temperature=3).status_code,
            ask(gateway.url, bearer="stolen").status_code,
        ]
    first, second, *others = read_records(str(tmp_path / "log"), find_day(now()))
    assert (first.key, first.model, first.version) == ("search", MODEL, MODEL)
    assert (first.prompt_tokens, first.completion_tokens) == (whole["prompt_tokens"], whole["completion_tokens"])
    assert (second.prompt_tokens, second.completion_tokens) == (first.prompt_tokens, first.completion_tokens)
    assert first.prompt_bytes > len(SECRET)
    assert sum(first.sketch) == first.prompt_bytes - 2  # trigrams
    assert statuses == [429, 400, 401]
    assert [(record.status, record.code) for record in others] == [
        (429, "insufficient_quota"),
        (400, "engine"),
        (401, "invalid_api_key"),
    ]
    written = b"".join(path.read_bytes() for path in (tmp_path / "log").iterdir())
    assert SECRET.encode() not in written
    assert b"stolen" not in written


def test_a_request_whose_client_leaves_is_interrupted(tmp_path: Path) -> None:
    replica = SimulatedReplica()
    replica.is_held = True
    with routing([replica], log=tmp_path) as gateway:
        request = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 500}
        with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", json=request) as response:
            next(response.iter_lines())
        wait_until(lambda: not replica.running, "the replica is free")
    (record,) = read_records(str(tmp_path), find_day(now()))
    assert record.code == INTERRUPTED
    assert record.completion_tokens < 500


def test_refusals_and_declined_answers_are_metrics_too_without_a_key_or_its_hash() -> None:
    search = key("search-team", tokens_per_day=10)
    with routing([SimulatedReplica()], dict([search])) as gateway:
        assert ask(gateway.url, bearer="search-team").status_code == 429
        page = httpx.get(f"{gateway.url}/metrics").text
    assert 'nightshift_gateway_refusals_total{code="insufficient_quota"} 1.0' in page
    assert search[0] not in page


def test_answers_are_counted_by_version_and_tokens_are_timed() -> None:
    with routing([SimulatedReplica()]) as gateway:
        assert ask(gateway.url).status_code == 200
        assert ask(gateway.url, stream=True).status_code == 200
        page = httpx.get(f"{gateway.url}/metrics").text
    assert f'nightshift_gateway_answers_total{{declined="no",version="{MODEL}"}} 2.0' in page
    counts = dict(re.findall(r"nightshift_gateway_(\w+_seconds_count\S*) (\S+)", page))
    assert counts == {
        'first_byte_seconds_count{stream="no"}': "1.0",
        'first_byte_seconds_count{stream="yes"}': "1.0",
        "token_seconds_count": "1.0",
    }


def test_a_day_has_a_file_of_its_own(tmp_path: Path) -> None:
    async def write() -> None:
        log = RequestLog(str(tmp_path))
        for at in (86_399.0, 86_400.0, 86_399.5):
            log.add(RequestRecord(at, 200))
        log.flush()

    asyncio.run(write())
    assert [record.at for record in read_records(str(tmp_path), "1970-01-01")] == [86_399.0, 86_399.5]
    assert [record.at for record in read_records(str(tmp_path), "1970-01-02")] == [86_400.0]
    assert read_records(str(tmp_path), "1970-01-03") == []


def test_sketches_of_like_prompts_are_alike_and_of_any_prompt_have_the_same_length() -> None:
    texts = (b"", b"ab", "naïve".encode(), b"x" * 4096)
    assert {len(sketch_prompt(text)) for text in texts} == {BUCKETS}
    assert [sum(sketch_prompt(text)) for text in texts] == [0, 0, 4, 4094]
    assert sketch_prompt(b"the same") == sketch_prompt(b"the same") != sketch_prompt(b"another")


def test_what_cannot_be_a_log_is_the_users_to_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"log is .*; give a folder that can be written"):
        RequestLog(str(tmp_path / "file" / "log"))
    (tmp_path / "2026-01-01.jsonl").write_text("[]\n")
    with pytest.raises(
        UserError, match=r"2026-01-01.jsonl is not a request log of the gateway .*; remove its broken lines"
    ):
        read_records(str(tmp_path), "2026-01-01")
