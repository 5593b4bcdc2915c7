"""Waits for several replies."""

import asyncio
from typing import Any

from components.serving.replies import Reply


async def answers(*replies: Reply[Any], return_exceptions: bool = False) -> list[Any]:
    """Return what each is answered, as `asyncio.gather` does of futures."""

    async def answer(reply: Reply[Any]) -> Any:
        return await reply

    return await asyncio.gather(*map(answer, replies), return_exceptions=return_exceptions)
