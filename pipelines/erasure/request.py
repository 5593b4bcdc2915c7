"""What is asked for when an entity is to be erased."""

from dataclasses import dataclass

from nightshift.config import Config
from nightshift.contracts.state import State
from nightshift.erasure.subject import DataSubject


@dataclass(frozen=True)
class ErasureRequest:
    """What is asked for.

    Attributes:
        state: where things lie; runs are a folder.
        config: the use case.
        subject: the entity.
        reason: why.
        redis_url: of the Redis with the online state that servers share; None: there is none.
    """

    state: State
    config: Config
    subject: DataSubject
    reason: str
    redis_url: str | None = None
