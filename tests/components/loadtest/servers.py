"""Servers whose answers a test decides on."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port

Answers = Callable[[int], tuple[int, float]]  # number of the request -> status, seconds until it is answered


@contextmanager
def answering(answers: Answers, at_once: int = 1000) -> Iterator[int]:
    """Answer every request as it is said, at most `at_once` at the same time; gives the port."""
    port, ready, number = free_port(), threading.Event(), iter(range(1_000_000))
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        room, stopped, loop = asyncio.Semaphore(at_once), asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(stopped.set))

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
                status = 200
                while status:
                    await _request(reader)
                    status, seconds = answers(next(number))
                    async with room:
                        await asyncio.sleep(seconds)
                    if status:
                        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}" % status)
            writer.close()

        async with await asyncio.start_server(talk, "127.0.0.1", port):
            ready.set()
            await stopped.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        wait_until(ready.is_set, "the server listens")
        yield port
    finally:
        stop[0]()
        thread.join()


async def _request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.split(b":")[1]))
