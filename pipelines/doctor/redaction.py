"""Removes secrets from what is given away: by the names of keys, by known values, and by patterns."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

REDACTED = "[redacted]"
# names of keys and variables whose values are secret; a tokenizer and a number of tokens are not
_WORDS = (
    r"passw(?:or)?d|passphrase|pwd|(?<![a-z])pass(?![a-z])|secret|credential|authorization|cookie|webhook|nightshift_notify"
    r"|token(?!iz|s?[_-]?(?:count|length|per)|s(?![a-z]))|(?:api|access|private|account)[_-]?key"
    r"|amz-signature|connection[_-]?string|(?<![a-z])dsn(?![a-z])"
)
SECRET_NAME = re.compile(_WORDS, re.IGNORECASE)
_PATTERNS = (
    # a private key, also one whose lines are escaped
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    # user and password of a URL; a password may itself hold an @
    re.compile(r"(?<=://)[^\s/\"'<>]+(?=@)"),
    # the word after Bearer and Basic
    re.compile(r"(?i)(?<=bearer )\S+|(?<=basic )[A-Za-z0-9+/=_-]{6,}"),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),  # JSON Web Token
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),  # AWS
    re.compile(r"\bya29\.[\w.-]+|\bAIza[\w-]{30,}"),  # Google
    re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|xox[abprs]-|sk-|dop_v1_)[\w-]{10,}"),
    re.compile(r"(?<=hooks\.slack\.com/services/)\S+"),
)
# name=value, name: value and "name": "value" in a line of text: quoted up to the quote, else up to the line's end
_ASSIGNMENT = re.compile(
    rf"""(?P<name>(?:{_WORDS})[\w.-]{{0,64}}\\?["']?\s*(?:=>|[=:])\s*)"""
    r"""(?P<value>\\?"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\n]+)""",
    re.IGNORECASE,
)
MIN_KNOWN = 4  # characters of a known value: shorter ones occur by chance


class Redactor:
    """Removes secrets from texts and values."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """Learn the secrets of a process.

        Args:
            variables: of its environment; the values of those with secret names are removed wherever they occur.
        """
        values = {value for name, value in variables.items() if SECRET_NAME.search(name)}
        spellings = {spell(value) for value in values for spell in (str, quote, _quote_all, unquote)}
        known = sorted((value for value in spellings if len(value) >= MIN_KNOWN), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def clean_text(self, text: str) -> str:
        """Return a text without secrets."""
        if self._known:
            text = self._known.sub(REDACTED, text)
        for pattern in _PATTERNS:
            text = pattern.sub(REDACTED, text)
        return _ASSIGNMENT.sub(rf"\g<name>{REDACTED}", text)

    def clean_value(self, value: Any) -> Any:
        """Return a JSON value without secrets: what is under a secret name goes as a whole."""
        if isinstance(value, Mapping):
            return {
                self.clean_text(str(key)): REDACTED if SECRET_NAME.search(str(key)) and item else self.clean_value(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.clean_value(item) for item in value]
        return self.clean_text(value) if isinstance(value, str) else value


def _quote_all(value: str) -> str:
    return quote(value, safe="")
