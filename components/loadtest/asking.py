"""What the server is asked: features of the package's reference sample, or images or texts of the newest day."""

from typing import NamedTuple

from components.loadtest import core
from components.loadtest.client import requests
from nightshift import tasks
from nightshift.contracts import package

ROUTE = "/score"


class Asked(NamedTuple):
    """Bodies, and the requests that carry them."""

    bodies: list[bytes]
    requests: list[bytes]


def of(uri: str, lake: str, use_case: str) -> Asked:
    """Return what a version is asked.

    Args:
        uri: its folder.
        lake: root of the tables.
        use_case: its name.

    Raises:
        UserError: when there is nothing to ask, or the version's task cannot be served.
    """
    model = package.load(uri)
    payloads = tasks.find(model.kind).examples.payloads(uri, model, lake, use_case, core.REQUESTS)
    built = [request for payload in payloads for request in requests(ROUTE, [payload.body], payload.media_type)]
    return Asked([payload.body for payload in payloads], built)
