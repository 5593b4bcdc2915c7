"""The load on a router: conversations with common beginnings, whose every turn sends all that was said before."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from nightshift.http.client import ExchangeError, ServerAddress, encode_request
from nightshift.http.pool import ConnectionPool
from nightshift.http.sse import DONE, SseReader, read_data

WORDS = ("night", "river", "stone", "light", "paper", "winter", "garden", "engine", "letter", "window")


@dataclass(frozen=True)
class ConversationLoad:
    """Conversations, from clients that each wait for their answers.

    Attributes:
        systems: system prompts, of which each conversation has one.
        system_words: words of a system prompt.
        conversations: conversations.
        turns: requests of a conversation.
        turn_words: words of a user's message.
        tokens: limit of an answer.
        clients: clients, each with one conversation at a time.
    """

    systems: int
    system_words: int
    conversations: int
    turns: int
    turn_words: int
    tokens: int
    clients: int


@dataclass
class LoadResult:
    """What the clients have seen: seconds to the first token, tokens of prompts and those cached, errors."""

    first_token: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    errors: int = 0
    seconds: float = 0.0


Message = dict[str, str]


class Delta(msgspec.Struct):
    content: str | None = None


class Choice(msgspec.Struct):
    delta: Delta


class Details(msgspec.Struct):
    cached_tokens: int = 0


class PromptUsage(msgspec.Struct):
    prompt_tokens: int
    total_tokens: int
    prompt_tokens_details: Details | None = None


class StreamChunk(msgspec.Struct):
    choices: list[Choice] = []
    usage: PromptUsage | None = None


def generate(traffic: ConversationLoad, seed: int) -> Iterator[tuple[Message, list[Message]]]:
    """Yield conversations: a system prompt, and the user's messages."""
    generator = random.Random(seed)

    def write(words: int) -> str:
        return " ".join(generator.choices(WORDS, k=words))

    systems = [{"role": "system", "content": write(traffic.system_words)} for _ in range(traffic.systems)]
    for _ in range(traffic.conversations):
        turns = [{"role": "user", "content": write(traffic.turn_words)} for _ in range(traffic.turns)]
        yield generator.choice(systems), turns


async def run(port: int, traffic: ConversationLoad, seed: int) -> LoadResult:
    """Have all conversations, and return what their clients have seen."""
    result, pool, queue = LoadResult(), ConnectionPool(ServerAddress("127.0.0.1", port)), generate(traffic, seed)
    started = time.perf_counter()

    async def work() -> None:
        for system, turns in queue:
            messages = [system]
            for turn in turns:
                messages.append(turn)
                messages.append({"role": "assistant", "content": await ask(pool, messages, traffic.tokens, result)})

    await asyncio.gather(*(work() for _ in range(traffic.clients)))
    result.seconds = time.perf_counter() - started
    pool.close()
    return result


async def ask(pool: ConnectionPool, messages: Sequence[Message], tokens: int, result: LoadResult) -> str:
    """Send a request, note what it has taken, and return the answer."""
    options = {"include_usage": True}
    body = {"model": "tiny", "messages": messages, "max_tokens": tokens, "stream": True, "stream_options": options}
    started, text, reader, is_done = time.perf_counter(), "", SseReader(), False
    connection = await pool.acquire()
    try:
        await connection.send(encode_request("POST", "/v1/chat/completions", "router", msgspec.json.encode(body)))
        first = 0.0
        while piece := await connection.read():
            first = first or time.perf_counter() - started
            for data in map(read_data, reader.feed(piece)):
                is_done = is_done or data == DONE
                if data.startswith(b"{"):
                    text += note(msgspec.json.decode(data, type=StreamChunk), result)
        result.first_token.append(first)
    except ExchangeError:
        pass
    finally:
        pool.release(connection)
    result.errors += not is_done
    return text


def note(chunk: StreamChunk, result: LoadResult) -> str:
    if chunk.usage:
        result.prompt_tokens += chunk.usage.prompt_tokens
        result.cached_tokens += (chunk.usage.prompt_tokens_details or Details()).cached_tokens
    return "".join(choice.delta.content or "" for choice in chunk.choices)
