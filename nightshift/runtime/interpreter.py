"""The environment of every Python process that is started: it imports nothing from the folder it is started in."""

import os
from collections.abc import Mapping


def isolate(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with which a `queue.py` of the current folder is not imported for Python's own.

    What the user names in PYTHONPATH stays, but for an empty entry, by which Python means the current folder.
    """
    path = os.pathsep.join(filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)))
    others = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    return others | ({"PYTHONPATH": path} if path else {}) | {"PYTHONSAFEPATH": "1"}
