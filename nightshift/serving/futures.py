"""Outcomes of work that was done for several requests at once."""

import asyncio
from typing import Any


def resolve(future: "asyncio.Future[Any]", outcome: object) -> None:
    """End a future with a result, or with an exception where the outcome is one; its task may have been cancelled."""
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
