"""Waits for several replies."""

import asyncio
from typing import Any

from components.serving.replies import Reply


async def answers(*replies: Reply[Any]) -> list[Any]:
    """Return what each is answered, or its exception."""

    async def answer(reply: Reply[Any]) -> Any:
        return await reply

    return await asyncio.gather(*map(answer, replies), return_exceptions=True)
