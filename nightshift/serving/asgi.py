"""The server's application for an ASGI server, such as uvicorn or granian, where TLS or HTTP/2 is wanted."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from nightshift.http.errors import LargeBodyError
from nightshift.http.messages import HttpRequest
from nightshift.http.transport import HttpApplication
from nightshift.runtime.errors import UserError
from nightshift.serving import options, server
from nightshift.serving.__main__ import parser

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def create(*flags: str) -> "ASGI":
    """Return the ASGI application for flags of `python -m nightshift.serving`; the ASGI server has its own address.

    Raises:
        UserError: naming the flag, its value and what is allowed.
    """
    return ASGI(server.application(options.read(parser().parse_args(flags), os.environ)))


class ASGI:
    """An ASGI application: loads the model when the server starts, and answers requests until it ends."""

    _application: HttpApplication

    def __init__(self, application: AbstractContextManager[HttpApplication]) -> None:
        self._opening = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Start and end with the server, or answer a request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            with self._opening as self._application:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
        except UserError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope["method"], scope["path"], scope["query_string"], _join(scope["headers"]))
        self._application.admit(request)
        if not request.refusal:
            try:
                request.body = await _read(receive, self._application.max_body)
            except LargeBodyError as error:
                request.refuse(error)
            except ConnectionError:
                return
        response = await self._application.answer(request)
        headers = {"content-length": str(len(response.body))} | response.headers
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": encoded})
        await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else response.body})


def _join(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        joined[name] = b"%b, %b" % (joined[name], value) if name in joined else value
    return joined


async def _read(receive: Receive, limit: int) -> bytes:
    """Return a request's body.

    Raises:
        LargeBodyError: when it has more bytes than the limit.
        ConnectionError: when the client disconnects before its end.
    """
    body, has_more = bytearray(), True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client has closed the connection")
        body += message.get("body", b"")
        if len(body) > limit:
            raise LargeBodyError(f"over {limit}", limit)
        has_more = message.get("more_body", False)
    return bytes(body)
