"""A simulated replica of an engine: slots, a prefix cache of blocks, times of prefill and decoding, OpenAI's API.

    python -m nightshift_testkit.engines.simulated --port 8001

A token is four bytes of a prompt, or one word of a completion.
"""

import argparse
import asyncio
import json
import random
import zlib
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import uvloop

from nightshift.http.addresses import listen
from nightshift.http.messages import HttpRequest, HttpResponse
from nightshift.http.sse import MAX_EVENT
from nightshift.http.transport import HttpServer, Timeouts, allow_connections
from nightshift_llm.gateway.completions import CHAT, EMBEDDINGS, TEXT

BLOCK_TOKENS, TOKEN_BYTES = 16, 4
TEMPLATE = 8  # tokens
MODEL = "tiny"
# in a prompt, they have the replica answer a stream with something else
ODD = ("no end", "an object", "a page", "a large event")


@dataclass(frozen=True)
class EngineSpeed:
    """Slots, blocks of the cache, seconds per uncached token of a prompt and per token, share of busy answers."""

    slots: int = 8
    blocks: int = 2048
    prefill: float = 0.0
    decode: float = 0.0
    busy: float = 0.0


class SimulatedReplica:
    """Answers as an engine does; `fail_after` breaks connections after so many chunks, `refuse` answers 503."""

    max_body = 16 * 1024 * 1024

    def __init__(self, speed: EngineSpeed | None = None) -> None:
        self.speed = speed or EngineSpeed()
        self.slots, self.prefill = asyncio.Semaphore(self.speed.slots), asyncio.Lock()
        self.blocks: OrderedDict[int, None] = OrderedDict()
        self.counts: Counter[str] = Counter(prompts=0, prompt_tokens=0, cached_tokens=0, completion_tokens=0)
        self.running = self.waiting = 0
        self.fail_after: int | None = None
        self.refuses = self.is_held = False
        self.bodies: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.bearers: set[str] = set()

    def admit(self, request: HttpRequest) -> None:
        """Admit all."""

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if request.refusal:
            return HttpResponse.refusal(request.refusal)
        self.bearers.add(request.header(b"authorization"))
        if request.path in ("/health", "/v1/models"):
            model = {"id": MODEL, "object": "model", "created": 1_700_000_000, "max_model_len": 4096}
            return HttpResponse.json({"object": "list", "data": [model]})
        if request.path == "/metrics":
            page = f'vllm:num_requests_running{{a="b"}} {self.running}\nvllm:num_requests_waiting {self.waiting}.0\n'
            return HttpResponse(page.encode())
        if request.path == "/stats":
            return HttpResponse.json(self.counts | {"running": self.running, "waiting": self.waiting})
        if request.path == f"{CHAT}/render":  # vLLM's, by which its router compares prompts
            return HttpResponse.json({"token_ids": list_tokens(read_prompt(json.loads(request.body)))})
        self.ids = [*self.ids[-9:], request.header(b"x-request-id")]
        if request.path == EMBEDDINGS:
            return embed(json.loads(request.body)["input"])
        if request.path not in (CHAT, TEXT):
            return HttpResponse.json({"error": "not found"}, HTTPStatus.NOT_FOUND)
        return await self.respond(request.body)

    async def respond(self, content: bytes) -> HttpResponse:
        if self.refuses:
            return HttpResponse.json({"error": "loading"}, HTTPStatus.SERVICE_UNAVAILABLE)
        body = json.loads(content)
        self.bodies = [*self.bodies[-9:], body]
        if random.random() < self.speed.busy:
            return HttpResponse(b"{}", HTTPStatus.TOO_MANY_REQUESTS, {"retry-after": "1"})
        if body.get("temperature", 0) > 2:
            return HttpResponse.json({"error": {"message": "temperature is too high"}}, HTTPStatus.BAD_REQUEST)
        return await self.complete(body)

    async def complete(self, body: dict[str, Any]) -> HttpResponse:
        prompt, is_chat = read_prompt(body), "messages" in body
        limit = body.get("max_tokens") if "max_tokens" in body else body["max_completion_tokens"]
        if isinstance(body.get("prompt"), list) or body.get("n") or limit == 0:
            return await self.complete_several(body, limit)
        stream = self.generate(prompt, 1 + zlib.crc32(prompt.encode()) % limit)
        if body.get("stream") and prompt.strip().removeprefix("user: ") in ODD:
            return answer_oddly(prompt.strip().removeprefix("user: "))
        if body.get("stream"):
            return HttpResponse(
                b"", headers={"content-type": "text/event-stream"}, stream=self.events(stream, body, is_chat)
            )
        parts = [part async for part in stream]
        usage = parts[-1][1]
        choice = {"text": "".join(word for word, _ in parts), "index": 0, "finish_reason": "stop"}
        if is_chat:
            choice = {"message": {"role": "assistant", "content": choice.pop("text")}, **choice}
        return HttpResponse.json(frame("chat.completion" if is_chat else "text_completion", [choice], usage))

    async def complete_several(self, body: dict[str, Any], limit: int) -> HttpResponse:
        """Answer several prompts, or one several times, or with its echo alone."""
        prompt = body["prompt"]
        prompts = prompt if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]
        texts = [str(prompt) * bool(body.get("echo")) for prompt in prompts for _ in range(body.get("n") or 1)]
        parts = [[part async for part in self.generate(text, limit)] for text in texts]
        words = [text + "".join(word for word, _ in words) for text, words in zip(texts, parts, strict=True)]
        choices = [{"text": text, "index": index, "finish_reason": "length"} for index, text in enumerate(words)]
        usage = describe_usage(len(prompts) * TEMPLATE, len(texts) * limit, 0)
        return HttpResponse.json(frame("text_completion", choices, usage))

    async def events(self, stream: Any, body: dict[str, Any], is_chat: bool) -> AsyncGenerator[bytes, None]:
        options, usage = body.get("stream_options") or {}, {}
        kind = "chat.completion.chunk" if is_chat else "text_completion"
        async for word, usage in stream:
            delta = {"delta": {"role": "assistant", "content": word}} if is_chat else {"text": word}
            usage_so_far = usage if options.get("continuous_usage_stats") else None
            yield event(frame(kind, [{"index": 0, "finish_reason": None, **delta}], usage_so_far))
        if options.get("include_usage"):
            yield event(frame(kind, [], usage))
        yield b"data: [DONE]\n\n"

    async def generate(self, prompt: str, tokens: int) -> AsyncGenerator[tuple[str, dict[str, int]], None]:
        """Yield the words, each with the usage so far."""
        length = len(prompt.encode()) // TOKEN_BYTES + TEMPLATE
        async with self.slot():
            cached = await self.read_prompt(prompt, length)
            for number in range(tokens):
                if self.fail_after is not None and number >= self.fail_after:
                    raise ConnectionResetError("this replica fails")
                while self.is_held and number:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(self.speed.decode)
                self.counts["completion_tokens"] += 1
                yield f"w{number} ", describe_usage(length, number + 1, cached)

    @asynccontextmanager
    async def slot(self) -> Any:
        self.waiting += 1
        try:
            await self.slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self.slots.release()

    async def read_prompt(self, prompt: str, length: int) -> int:
        """Return how many tokens of a prompt were cached, after the time that the others take."""
        hashes = hash_blocks(prompt.encode())
        async with self.prefill:
            hits = next((index for index, block in enumerate(hashes) if block not in self.blocks), len(hashes))
            cached = hits * BLOCK_TOKENS
            await asyncio.sleep(self.speed.prefill * (length - cached))
        for block in reversed(hashes):
            self.blocks[block] = None
            self.blocks.move_to_end(block)
        while len(self.blocks) > self.speed.blocks:
            self.blocks.popitem(last=False)
        self.counts.update(prompts=1, prompt_tokens=length, cached_tokens=cached)
        return cached


def embed(texts: Any) -> HttpResponse:
    vectors = [{"object": "embedding", "index": index, "embedding": [0.5]} for index in range(len(texts))]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return HttpResponse.json({"object": "list", "model": MODEL, "data": vectors, "usage": usage})


def answer_oddly(kind: str) -> HttpResponse:
    answers = {
        "no end": (event({"choices": [{"index": 0, "delta": {"content": "w0 "}}]}), "text/event-stream"),
        "an object": (b"{}", "application/json"),
        "a page": (b"<html>", "text/html"),
        "a large event": (b"data: " + b"x" * MAX_EVENT, "text/event-stream"),
    }
    body, content_type = answers[kind]
    return HttpResponse(body, headers={"content-type": content_type})


def read_prompt(body: dict[str, Any]) -> str:
    return str(body.get("prompt") or "".join(f"{part['role']}: {part['content']}\n" for part in body["messages"]))


def list_tokens(prompt: str) -> list[int]:
    """The tokens of a prompt, as numbers below 2^31."""
    text = prompt.encode()
    return [zlib.crc32(text[start : start + TOKEN_BYTES]) >> 1 for start in range(0, len(text), TOKEN_BYTES)]


def hash_blocks(text: bytes) -> Sequence[int]:
    size, parent, hashes = BLOCK_TOKENS * TOKEN_BYTES, 0, []
    for end in range(size, len(text) + 1, size):
        parent = hash((parent, text[end - size : end]))
        hashes.append(parent)
    return hashes


def describe_usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def frame(kind: str, choices: list[Any], usage: dict[str, int] | None) -> dict[str, Any]:
    content = {"id": "c-1", "object": kind, "created": 1, "model": MODEL, "choices": choices}
    return content | ({"usage": usage} if usage else {})


def event(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, nargs="+", required=True, help="a replica on each")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=2048)
    parser.add_argument("--prefill", type=float, default=0.0)
    parser.add_argument("--decode", type=float, default=0.0)
    parser.add_argument("--busy", type=float, default=0.0)
    args = parser.parse_args()
    uvloop.run(serve(args.port, EngineSpeed(args.slots, args.blocks, args.prefill, args.decode, args.busy)))


async def serve(ports: Sequence[int], speed: EngineSpeed) -> None:
    """Serve a replica on each port."""
    timeouts, limit = Timeouts(grace=0.1), allow_connections()
    servers = [HttpServer(SimulatedReplica(speed), timeouts, limit, cancels_abandoned=True) for _ in ports]
    listeners = [listen(port, 1) for port in ports]
    await asyncio.gather(*map(HttpServer.serve, servers, listeners))


if __name__ == "__main__":
    main()
