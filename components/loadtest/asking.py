"""What the server is asked: features of the package's reference sample, or images or texts of the newest day."""

import json
from typing import NamedTuple

from components.classes import contents
from components.common.contracts import package
from components.common.contracts.package import ModelPackage, Tabular
from components.loadtest import core
from components.loadtest.client import requests
from components.serving.items import tasks

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
    if not isinstance(model.preprocessing, Tabular):
        return _items(model, uri, lake, use_case)
    rows = core.instances(model.preprocessing, package.read_reference(uri))
    bodies = [json.dumps({"instances": [row]}).encode() for row in rows]
    return Asked(bodies, requests(ROUTE, bodies))


def _items(model: ModelPackage, uri: str, lake: str, use_case: str) -> Asked:
    items = tasks.of(model, uri)
    bodies = list(items.usable(contents.newest(lake, use_case, items.name, core.REQUESTS)))
    asked = [request for body in bodies for request in requests(ROUTE, [body], items.media_type(body))]
    return Asked(bodies, asked)
