"""Secrets that a text may hold, in a URL or by value, replaced before the text leaves the machine."""

import os
import re
from collections.abc import Mapping

MASK = "***"
LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
SECRET = re.compile("password|passwd|secret|token|api_?key|access_?key|private_?key|notify|webhook", re.IGNORECASE)
PARAMETER = re.compile(rf"([?&][^=&\s]*(?:{SECRET.pattern}|signature|sig)[^=&\s]*=)[^&\s]+", re.IGNORECASE)
SHORTEST = 6  # characters of a variable's value: shorter ones are switches and numbers


def mask_secrets(text: str, variables: Mapping[str, str] = os.environ) -> str:
    """Return a text without logins and secret parameters of URLs, and without values of secret variables.

    Args:
        text: what may hold them.
        variables: environment, of which those with a secret's name hold one.
    """
    values = [value for name, value in variables.items() if SECRET.search(name) and len(value) >= SHORTEST]
    for value in sorted(values, key=len, reverse=True):  # one may be part of another
        text = text.replace(value, MASK)
    return PARAMETER.sub(rf"\1{MASK}", LOGIN.sub(f"{MASK}@", text))
