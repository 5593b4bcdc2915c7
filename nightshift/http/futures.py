"""Results of work done for several requests at once."""

import asyncio
from typing import Any


def resolve(future: "asyncio.Future[Any]", outcome: object) -> None:
    """Set a future's result, or its exception where the outcome is one; a cancelled future stays as it is."""
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
