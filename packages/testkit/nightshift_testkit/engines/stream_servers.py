"""Servers that stream as they are told, to see whether the client counts it right."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from queue import Queue

Write = Callable[[str], Awaitable[None]]
Behavior = Callable[[Write, int], Awaitable[None]]

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(document: dict[str, object]) -> str:
    return f"data: {json.dumps(document)}\n\n"


def piece(text: str) -> str:
    return event({"choices": [{"index": 0, "delta": {"content": text}}]})


def usage(tokens: int) -> str:
    return event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens}})


async def chunk(write: Write, text: str) -> None:
    await write(f"{len(text.encode()):x}\r\n{text}\r\n")


async def stream(write: Write, tokens: int, first: float = 0.0, later: float = 0.0) -> None:
    """A whole stream: its first token after some seconds, each further one after some more."""
    await write(HEAD)
    await chunk(write, event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]}))
    for number in range(tokens):
        await asyncio.sleep(later if number else first)
        await chunk(write, piece("word "))
    await chunk(write, usage(tokens) + "data: [DONE]\n\n")
    await write("0\r\n\r\n")


async def serve(behavior: Behavior, ports: "Queue[int]", stop: asyncio.Event) -> None:
    numbers = count()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(text: str) -> None:
            writer.write(text.encode())
            await writer.drain()

        with suppress(ConnectionError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            lengths = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
            await reader.readexactly(sum(lengths))
            await behavior(write, next(numbers))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    ports.put(server.sockets[0].getsockname()[1])
    await stop.wait()
    server.close()


@contextmanager
def streaming(behavior: Behavior) -> Iterator[str]:
    """Serve by a behavior, called with a function that writes and the number of the connection; yield the URL."""
    ports: Queue[int] = Queue()
    with asyncio.Runner() as runner:
        loop, stop = runner.get_loop(), asyncio.Event()
        thread = threading.Thread(target=runner.run, args=(serve(behavior, ports, stop),))
        thread.start()
        try:
            yield f"http://127.0.0.1:{ports.get()}"
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
