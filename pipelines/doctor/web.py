"""Web servers outside the cluster."""

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import urllib3

from nightshift.cluster import MissingError
from nightshift.runtime.errors import UnavailableError, UserError, may_pass

TIMEOUT_SECONDS = 10


def fetch(url: str, authorization: str = "") -> str:
    """Return what a URL answers.

    Raises:
        MissingError: on 404.
        UserError: when the server refuses.
        UnavailableError: when it does not answer, or with an error of its own.
    """
    answer = _get(url, {"authorization": authorization} if authorization else {})
    if answer.status == 404:
        raise MissingError(url)
    if may_pass(answer.status):
        raise UnavailableError(f"{url} answers {answer.status}")
    if answer.status != 200:
        raise UserError(f"{url} answers {answer.status}")
    return str(answer.data.decode(errors="replace"))


def read_date(url: str) -> datetime:
    """Return a server's time, whatever else it answers.

    Raises:
        UnavailableError: when it does not answer, or names no time.
    """
    answer = _get(url, {})
    if "date" not in answer.headers:
        raise UnavailableError(f"{url} names no time")
    return parsedate_to_datetime(answer.headers["date"])


def _get(url: str, headers: dict[str, str]) -> Any:
    try:
        # a redirect leads to a login page
        return urllib3.request("GET", url, headers=headers, retries=False, redirect=False, timeout=TIMEOUT_SECONDS)
    except urllib3.exceptions.HTTPError as error:
        raise UnavailableError(f"{url} does not answer: {error}") from None
