"""The Hub's client, its names, and its errors in one line."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from nightshift.runtime.errors import UnavailableError, UserError, may_pass

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SCHEME = "hf://"
TOKEN = "HF_TOKEN"  # noqa: S105 - the variable's name
ENDPOINT = "HF_ENDPOINT"
REFERENCE = re.compile(r"hf://([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w.-]+))?")
# read by the client on import
SETTINGS = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_VERBOSITY": "error"}


@dataclass(frozen=True)
class HubReference:
    """A repository of the Hub, perhaps at a revision.

    Attributes:
        name: `organization/name`.
        revision: commit, tag or branch; empty where none is named.
    """

    name: str
    revision: str = ""

    @classmethod
    def parse(cls, field: str, uri: str) -> Self:
        """Read `hf://organization/name` or `hf://organization/name@revision`.

        Raises:
            UserError: when it is neither; the message begins with the field.
        """
        match = REFERENCE.fullmatch(uri)
        if match is None:
            raise UserError(f"{field}: is {uri!r}; write hf://organization/name, or hf://organization/name@commit")
        return cls(match[1], match[2] or "")


@contextmanager
def connect() -> Iterator["HfApi"]:
    """Yield the Hub's client; what fails there is explained.

    Raises:
        UserError: when the Hub refuses.
        UnavailableError: when it does not answer, or fails.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from httpx2 import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        # without the variable no token of this machine's user is sent
        yield HfApi(os.environ.get(ENDPOINT) or None, token=os.environ.get(TOKEN) or False, library_name="nightshift")
    except (HTTPError, HfHubHTTPError, LocalEntryNotFoundError, RuntimeError) as error:
        raise _explain(error) from error


def _explain(error: Exception) -> UserError | UnavailableError:
    """Return the error of a request; an upload wraps its own."""
    cause: Any = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
    response = getattr(cause, "response", None)
    message = str(cause) if response is None else f"{response.status_code} {getattr(cause, 'server_message', '')}"
    message = " ".join(message.split())[:300] or type(cause).__name__
    if response is None or may_pass(response.status_code):
        return UnavailableError(f"the Hub does not answer ({message}); check {ENDPOINT}, then run it again")
    return UserError(
        f"the Hub refuses ({message}); check the repository's name, and that {TOKEN} is of a user who may use it"
    )


def hash_as_git(content: bytes) -> str:
    """Return the SHA-1 by which git names a file, and the Hub a small one."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
