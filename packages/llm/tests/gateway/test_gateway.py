"""A gateway in front of simulated replicas, over HTTP and by OpenAI's client."""

import asyncio
import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from nightshift_llm.gateway.fleet import Address
from nightshift_llm.gateway.ledger_file import read_report
from nightshift_llm.gateway.request_log import find_day, now, read_records
from nightshift_testkit.engines.simulated import MODEL, ODD, EngineSpeed, SimulatedReplica
from nightshift_testkit.processes import SECONDS, wait_until
from packages.llm.tests.gateway.conftest import CHAT, RunningGateway, key, replying, routing
from tests.nightshift.http.echo import connected, received


@contextmanager
def streaming(gateway: RunningGateway, bearer: str = "anything", **fields: Any) -> Iterator[Iterator[str]]:
    """Open a stream; yields its events without `data: `."""
    body = {"model": MODEL, "messages": CHAT, "stream": True} | fields
    headers = {"authorization": f"Bearer {bearer}"}
    url = f"{gateway.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=60) as response:
        assert response.status_code == 200
        yield (line.removeprefix("data: ") for line in response.iter_lines() if line)


def port_of(gateway: RunningGateway) -> int:
    return int(gateway.url.rpartition(":")[2])


def total(gateway: RunningGateway, name: str) -> int:
    return sum(replica.counts[name] for replica in gateway.replicas)


def test_openai_client_completes_streams_and_lists_models(gateway) -> None:
    client = gateway.client()
    whole = client.chat.completions.create(model=MODEL, messages=CHAT, max_tokens=20)
    text = whole.choices[0].message.content
    assert len(text.split()) == whole.usage.completion_tokens > 0
    chunks = list(client.chat.completions.create(model=MODEL, messages=CHAT, max_tokens=20, stream=True))
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == text
    assert {chunk.usage for chunk in chunks} == {None}
    options = {"include_usage": True}
    *_, last = client.chat.completions.create(
        model=MODEL, messages=CHAT, max_tokens=20, stream=True, stream_options=options
    )
    assert (last.choices, last.usage.total_tokens) == ([], whole.usage.total_tokens)
    assert client.completions.create(model=MODEL, prompt="Once", max_tokens=3).choices[0].text.startswith("w0 ")
    parts = client.completions.create(model=MODEL, prompt="Once", max_tokens=3, stream=True)
    assert "".join(part.choices[0].text for part in parts).startswith("w0 ")
    assert [model.id for model in client.models.list()] == [MODEL]
    model = client.models.retrieve(MODEL)
    assert (model.id, model.created, model.max_model_len) == (MODEL, 1_700_000_000, 4096)


def test_openai_client_requests_several_prompts_and_embeddings_and_each_is_charged(tmp_path: Path) -> None:
    with routing([SimulatedReplica()], dict([key("team")]), tmp_path / "ledger") as gateway:
        client = gateway.client("team")
        several = client.completions.create(model=MODEL, prompt=["Once", "Twice"], max_tokens=3, n=2)
        assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
        tokens = client.completions.create(model=MODEL, prompt=[[1, 2], [3]], max_tokens=3)
        echo = client.completions.create(model=MODEL, prompt="Once", max_tokens=0, echo=True, logprobs=1)
        assert echo.choices[0].text == "Once"
        chat = client.chat.completions.create(model=MODEL, messages=CHAT, max_tokens=5, extra_body={"top_k": 5})
        vectors = client.embeddings.create(model=MODEL, input=["Once", "Twice"])
        assert len(vectors.data) == 2
        (row,) = read_report(str(tmp_path / "ledger"))
    answers = [several, tokens, echo, chat]
    assert row.prompt_tokens == sum(answer.usage.prompt_tokens for answer in [*answers, vectors])
    assert row.completion_tokens == sum(answer.usage.completion_tokens for answer in answers)
    assert (row.requests, row.estimated_tokens) == (5, 0)


def test_langchain_completes_and_streams(gateway) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="not installed: pip install langchain-openai")
    chat = langchain.ChatOpenAI(base_url=f"{gateway.url}/v1", api_key="anything", model=MODEL, max_tokens=20)
    whole = chat.invoke("Tell me a story.")
    assert whole.content.split() == [f"w{number}" for number in range(whole.usage_metadata["output_tokens"])]
    parts = list(chat.stream("Tell me a story.", stream_usage=True))
    assert "".join(part.content for part in parts) == whole.content
    assert (
        sum(part.usage_metadata["total_tokens"] for part in parts if part.usage_metadata)
        == (whole.usage_metadata["total_tokens"])
    )


def test_what_is_not_served_is_refused_in_the_form_of_openais_api(gateway) -> None:
    client = gateway.client()
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="other", messages=CHAT)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError, match="/v1/responses is not served; allowed: /v1/chat/completions, "):
        client.responses.create(model=MODEL, input="text")
    with pytest.raises(openai.NotFoundError, match=f"model is 'other'; served: {MODEL}"):
        client.models.retrieve("other")
    with pytest.raises(openai.BadRequestError, match="temperature is too high"):  # the engine's own words
        client.chat.completions.create(model=MODEL, messages=CHAT, temperature=3)
    assert httpx.get(f"{gateway.url}/v1/completions").status_code == 405
    assert httpx.post(f"{gateway.url}/v1/completions", content=b"{").json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:8320"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Host": "localhost", "Origin": "http://localhost:3000"}, 200),
    ],
)
def test_a_page_of_another_site_and_a_body_that_is_not_json_are_refused(gateway, headers, status) -> None:
    body = {"model": MODEL, "messages": CHAT, "max_tokens": 1}
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == status


def test_a_conversation_stays_where_its_past_is_cached_and_others_go_elsewhere() -> None:
    with routing([SimulatedReplica(), SimulatedReplica()]) as gateway:
        for turn in range(1, 6):
            for topic in ("cats", "dogs"):
                messages = [{"role": "user", "content": f"{topic} {number} " * 100} for number in range(turn)]
                gateway.complete(messages=messages, max_tokens=2)
        assert [replica.counts["prompts"] for replica in gateway.replicas] == [5, 5]
        assert total(gateway, "cached_tokens") > 0.6 * total(gateway, "prompt_tokens")


def test_an_attempt_that_fails_before_its_first_byte_is_repeated_elsewhere_unseen() -> None:
    broken, sound = SimulatedReplica(), SimulatedReplica()
    with routing([broken, sound]) as gateway:
        broken.fail_after = 0
        for number in range(4):
            with streaming(gateway, messages=[{"role": "user", "content": str(number)}], max_tokens=5) as events:
                assert list(events)[-1] == "[DONE]"
        broken.fail_after, broken.refuses = None, True
        wait_until(lambda: all(replica["healthy"] for replica in gateway.health().values()), "it answers again")
        assert {gateway.complete(max_tokens=number).status_code for number in range(1, 5)} == {200}
        assert "nightshift_gateway_retries_total 0.0" not in httpx.get(f"{gateway.url}/metrics").text


@pytest.mark.parametrize("number", [1, 4])
def test_a_request_that_no_replica_is_free_for_ends_with_the_answer_of_one(number) -> None:
    replicas = [SimulatedReplica() for _ in range(number)]
    with routing(replicas) as gateway:
        for replica in replicas:
            replica.refuses = True
        response = gateway.complete()
        assert (response.status_code, response.json()) == (503, {"error": "loading"})
        assert sum(bool(replica.bodies) for replica in replicas) == 0


def test_a_stream_that_breaks_ends_with_an_error_without_done_and_is_never_repeated() -> None:
    replicas = [SimulatedReplica(), SimulatedReplica()]
    with routing(replicas) as gateway:
        for replica in replicas:
            replica.fail_after = 3
        with streaming(gateway, max_tokens=500) as events:
            *chunks, last = map(json.loads, events)
        assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks] == ["w0 ", "w1 ", "w2 "]
        assert last["error"]["code"] == "stream_interrupted"
        assert total(gateway, "prompts") == 1
        wait_until(lambda: all(replica["healthy"] for replica in gateway.health().values()), "they answer again")
        with pytest.raises(openai.APIError, match="failed in the middle of the stream"):
            list(gateway.client().chat.completions.create(model=MODEL, messages=CHAT, stream=True, max_tokens=500))


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(stream) -> None:
    replica = SimulatedReplica()
    with routing([replica]) as gateway:
        replica.is_held = True
        with pytest.raises(httpx.ReadTimeout):
            body = {"model": MODEL, "messages": CHAT, "stream": stream, "max_tokens": 500}
            httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=0.3)
        wait_until(lambda: replica.running == 0, "the slot is free")
        wait_until(lambda: [state["requests"] for state in gateway.health().values()] == [0], "the gateway knows it")
        replica.is_held = False
        assert gateway.complete().status_code == 200


def test_a_replica_that_is_removed_ends_its_streams_and_gets_no_more() -> None:
    first, second = SimulatedReplica(), SimulatedReplica()
    with routing([first, second]) as gateway:
        first.is_held = True
        removed = gateway.addresses[0]
        with streaming(gateway, max_tokens=500) as events:
            assert "w0" in next(events)
            gateway.addresses.remove(removed)
            wait_until(lambda: gateway.health()[removed.url]["draining"], "it drains")
            assert all(gateway.complete(max_tokens=number).status_code == 200 for number in range(1, 6))
            first.is_held = False
            assert list(events)[-1] == "[DONE]"
        assert first.counts["prompts"] == 1
        wait_until(lambda: removed.url not in gateway.health(), "it is gone")


def test_a_replica_that_comes_later_is_used_and_one_that_has_died_is_not() -> None:
    with routing([SimulatedReplica()]) as gateway:
        with replying(late := SimulatedReplica()) as url:
            gateway.addresses.append(Address(url, "7"))
            wait_until(lambda: gateway.health().get(url, {}).get("healthy"), "it answers")
            for number in range(4):
                gateway.complete(messages=[{"role": "user", "content": str(number) * 1000}])
            assert late.counts["prompts"] == 2
        wait_until(lambda: not gateway.health()[url]["healthy"], "it is missed")
        assert {gateway.complete(max_tokens=number).status_code for number in range(1, 5)} == {200}


def test_without_a_replica_that_answers_the_gateway_is_not_ready_and_says_so() -> None:
    with routing([SimulatedReplica()]) as gateway:
        gateway.addresses[0] = Address("http://127.0.0.1:1")
        wait_until(lambda: httpx.get(f"{gateway.url}/healthz").status_code == 503, "it knows that none answers")
        response = gateway.complete()
        assert (response.status_code, response.json()["error"]["code"]) == (503, "no_replica")
        assert response.headers["retry-after"] == "1"


def test_keys_have_budgets_and_rates_and_what_they_use_is_counted(tmp_path: Path) -> None:
    keys = dict([key("rich"), key("poor", tokens_per_day=1000), key("slow", requests_per_minute=1)])
    replica = SimulatedReplica()
    with routing([replica], keys, tmp_path / "ledger") as gateway:
        assert httpx.get(f"{gateway.url}/v1/models").status_code == 401
        with pytest.raises(openai.AuthenticationError):
            gateway.client("unknown").chat.completions.create(model=MODEL, messages=CHAT)
        with pytest.raises(openai.RateLimitError, match="poor has 1000 of 1000 left today") as refusal:
            gateway.client("poor").chat.completions.create(model=MODEL, messages=CHAT, max_tokens=1000)
        assert refusal.value.code == "insufficient_quota"
        used = {}
        for name in ("rich", "poor", "slow"):
            answer = gateway.client(name).chat.completions.create(model=MODEL, messages=CHAT, max_tokens=50)
            used[name] = (answer.usage.prompt_tokens, answer.usage.completion_tokens)
        with streaming(gateway, "rich", max_tokens=30) as events:
            assert list(events)[-1] == "[DONE]"
        with pytest.raises(openai.RateLimitError) as refusal:
            gateway.client("slow").chat.completions.create(model=MODEL, messages=CHAT, max_tokens=50)
        assert 0 < int(refusal.value.response.headers["retry-after"]) <= 60
        rows = {row.key: row for row in read_report(str(tmp_path / "ledger"))}  # what a client has seen is on disk
    assert {name: (rows[name].prompt_tokens, rows[name].completion_tokens) for name in ("poor", "slow")} == {
        name: used[name] for name in ("poor", "slow")
    }
    assert rows["rich"].completion_tokens == replica.counts["completion_tokens"] - used["poor"][1] - used["slow"][1]
    assert {row.estimated_tokens for row in rows.values()} == {0}
    assert {row.version for row in rows.values()} == {MODEL}


def test_an_interrupted_stream_is_charged_what_the_engine_has_counted(tmp_path: Path) -> None:
    replica = SimulatedReplica()
    with routing([replica], dict([key("team")]), tmp_path / "ledger") as gateway:
        replica.fail_after = 3
        with streaming(gateway, "team", max_tokens=500) as events:
            assert "stream_interrupted" in list(events)[-1]
        (row,) = read_report(str(tmp_path / "ledger"))
    assert (row.requests, row.completion_tokens, row.estimated_tokens) == (1, 3, 0)


def test_requests_at_once_never_exceed_a_budget_and_all_that_fit_are_admitted(tmp_path: Path) -> None:
    keys = dict([key("team", tokens_per_day=5_000)])
    with routing([SimulatedReplica(), SimulatedReplica()], keys, tmp_path / "ledger") as gateway:
        codes = asyncio.run(ask_at_once(gateway, 200))
        (row,) = read_report(str(tmp_path / "ledger"))
    spent = row.prompt_tokens + row.completion_tokens
    assert (row.estimated_tokens, codes.count(200)) == (0, row.requests)
    assert set(codes) == {200, 429}
    assert 5_000 - (400 + 256 + 60) < spent <= 5_000  # less than one request's reservation is left


async def ask_at_once(gateway: RunningGateway, number: int) -> list[int]:
    headers = {"authorization": "Bearer team"}
    limits = httpx.Limits(max_connections=number)
    async with httpx.AsyncClient(headers=headers, timeout=60, limits=limits) as client:

        async def ask(index: int) -> int:
            messages = [{"role": "user", "content": f"{index} " * 40}]
            body = {"model": MODEL, "messages": messages, "stream": True, "max_tokens": 60}
            return (await client.post(f"{gateway.url}/v1/chat/completions", json=body)).status_code

        return await asyncio.gather(*map(ask, range(number)))


def test_one_clients_odd_streams_take_no_replica_from_others() -> None:
    with routing([SimulatedReplica(), SimulatedReplica()]) as gateway:
        for odd in ODD * 3:
            messages = [{"role": "user", "content": odd}]
            assert "[DONE]" not in gateway.complete(messages=messages, stream=True, max_tokens=5).text
            assert gateway.complete(max_tokens=5).status_code == 200
            assert all(replica["healthy"] for replica in gateway.health().values())


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_has_finished_sending_gets_its_answer(stream) -> None:
    body = json.dumps({"model": MODEL, "messages": CHAT, "stream": stream, "max_tokens": 40}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    with routing([SimulatedReplica(EngineSpeed(prefill=0.05))]) as gateway, connected(port_of(gateway)) as client:
        client.sendall(head % len(body) + body)
        client.shutdown(socket.SHUT_WR)
        answer = received(client)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n" if stream else b"}")


def test_a_small_request_passes_a_large_one_of_its_key_that_waits_and_those_that_wait_are_counted(
    tmp_path: Path,
) -> None:
    keys = dict([key("team", tokens_per_day=4000)])
    replica = SimulatedReplica()
    with routing([replica], keys, tmp_path / "ledger") as gateway, ThreadPoolExecutor() as pool:
        client = gateway.client("team").chat.completions

        def read_waiting() -> bool:
            return 'requests_waiting{key="team"} 1.0' in httpx.get(f"{gateway.url}/metrics").text

        replica.is_held = True
        with streaming(gateway, "team", max_tokens=1900) as events:
            next(events)
            large = pool.submit(client.create, model=MODEL, messages=CHAT, max_tokens=1900)
            wait_until(read_waiting, "the large one waits")
            small = client.with_raw_response.create(model=MODEL, messages=CHAT, max_tokens=1)
            assert small.headers["x-ratelimit-limit-tokens"] == "4000"
            assert int(small.headers["x-ratelimit-remaining-tokens"]) < 2100
            assert not large.done()
            replica.is_held = False
            assert list(events)[-1] == "[DONE]"
        assert large.result(SECONDS).usage.completion_tokens > 0


def test_ids_are_returned_sent_on_and_logged(tmp_path: Path) -> None:
    ids = {"x-request-id": "mine", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    body = {"model": MODEL, "messages": CHAT, "max_tokens": 5}
    replica = SimulatedReplica()
    with routing([replica], log=tmp_path) as gateway:
        url = f"{gateway.url}/v1/chat/completions"
        for fields in (body, body | {"stream": True}, body | {"model": "other"}, body | {"temperature": 3}):
            headers = httpx.post(url, json=fields, headers=ids).headers
            assert {name: headers[name] for name in ids} == ids
        invalid = {"x-request-id": "a b", "traceparent": "00-1-2-3"}
        headers = httpx.post(url, json=body, headers=invalid).headers
        assert len(headers["x-request-id"]) == 32
        assert "traceparent" not in headers
    logged = [(record.request_id, record.traceparent) for record in read_records(str(tmp_path), find_day(now()))]
    assert logged == [tuple(ids.values())] * 4 + [(headers["x-request-id"], "")]
    assert replica.ids[-2:] == ["mine", headers["x-request-id"]]


def test_its_health_is_also_where_engines_have_theirs(gateway) -> None:
    assert httpx.get(f"{gateway.url}/health").json()["ready"]


def test_a_compressed_body_is_read_and_an_unknown_coding_refused(gateway) -> None:
    body = json.dumps({"model": MODEL, "messages": CHAT, "max_tokens": 5}).encode()
    url = f"{gateway.url}/v1/chat/completions"
    for coding, content, status in (
        ("gzip", gzip.compress(body), 200),
        ("deflate", zlib.compress(body), 200),
        ("identity", body, 200),
        ("gzip", body, 400),
        ("gzip", gzip.compress(b" " * 17_000_000 + body), 413),
        ("br", body, 415),
    ):
        assert httpx.post(url, content=content, headers={"content-encoding": coding}).status_code == status


def test_a_refusal_that_a_retry_does_not_change_says_so_and_names_what_is_left(tmp_path: Path) -> None:
    keys = dict([key("poor", tokens_per_day=1000, requests_per_minute=9)])
    with routing([SimulatedReplica()], keys, tmp_path / "ledger") as gateway:
        create = gateway.client("poor").with_options(max_retries=2).chat.completions.create
        with pytest.raises(openai.RateLimitError) as refusal:
            create(model=MODEL, messages=CHAT, max_tokens=1000)
        headers = refusal.value.response.headers
        assert headers["x-should-retry"] == "false"
        assert [headers[f"x-ratelimit-remaining-{unit}"] for unit in ("requests", "tokens")] == ["9", "1000"]
        assert headers["x-ratelimit-reset-tokens"].endswith("s")
        assert 'nightshift_gateway_requests_total{code="429"} 1.0' in httpx.get(f"{gateway.url}/metrics").text
