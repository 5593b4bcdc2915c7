"""The minimal server: answers everything with the same bytes, which measures the cost of the network."""

import asyncio
import os

import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Empty(asyncio.Protocol):
    """A connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, _: bytes) -> None:
        """Write the answer."""
        self._transport.write(ANSWER)


async def serve() -> None:
    """Serve until the process is killed."""
    server = await asyncio.get_running_loop().create_server(Empty, "127.0.0.1", int(os.environ["PORT"]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
