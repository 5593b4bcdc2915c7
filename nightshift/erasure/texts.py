"""Ids in text: JSON, HTML, Markdown, logs. A short number or a plain word counts only where its column is named."""

import html
import json
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from urllib.parse import quote

from nightshift.data import values
from nightshift.erasure.subject import DataSubject, is_distinctive

ERASED, ABSENT = "[erased]", "null"
BEFORE = r"(?:(?<!\w)(?<!\w[-.@])|(?<=\\[nrt]))"  # an id begins here: not within a longer one
AFTER = r"(?!\w|[-.@]\w)"
WORD = re.compile(r"[^\s\"'<>,;=()\[\]{}\\]+")
QUOTE = r"(?:\\?[\"']|&quot;|&#34;|&#39;)"  # JSON may lie within a string of JSON
VALUE = rf"(?:(?P<quote>{QUOTE})(?P<quoted>.*?)(?<!\\)(?P=quote)|(?P<bare>[^\s\"'&,;<>}}\])]+))"

Span = tuple[int, int]


def count(text: str, subject: DataSubject) -> int:
    """Return how often a text names an entity or its events."""
    return len(_find(text, subject))


def redact(text: str, subject: DataSubject) -> str:
    """Return a text in which an entity's ids and those of its events are replaced; JSON stays JSON."""
    for start, end in sorted(_find(text, subject), reverse=True):
        text = text[:start] + (ABSENT if _is_json_number(text, start, end) else ERASED) + text[end:]
    return text


@lru_cache(1 << 16)
def spell(value: str) -> tuple[str, ...]:
    """Return the spellings of an id in the formats of the workspace, the longest first."""
    forms = {value, unicodedata.normalize("NFD", value), f"{value}.0" if re.fullmatch("-?[0-9]+", value) else value}
    encoders = (str, lambda text: json.dumps(text)[1:-1], html.escape, lambda text: quote(text, safe=""))
    return tuple(sorted({encode(form) for form in forms for encode in encoders}, key=lambda text: (-len(text), text)))


def _is_json_number(text: str, start: int, end: int) -> bool:
    """Return whether a word may be a number of JSON, in whose place quotes might break a string around it."""
    return bool(re.fullmatch(r"-?[0-9.]+", text[start:end]) and re.search(r"[:\[,]\s*$", text[:start][-20:]))


def _find(text: str, subject: DataSubject) -> set[Span]:
    spans = {*_find_named(text, subject.column, {subject.value})}
    spans |= {*_find_named(text, subject.event_column, subject.events)}
    words = [subject.value, *_list_events(text, subject)]
    spans |= {span for word in words if is_distinctive(word) for span in _find_word(text, word)}
    # of overlapping ones the widest
    return {one for one in spans if not any(_covers(other, one) for other in spans - {one})}


def _covers(outer: Span, inner: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _list_events(text: str, subject: DataSubject) -> set[str]:
    """Return the events' ids among the words of a text."""
    words = {word.strip(".:!?") for word in WORD.findall(text)} if subject.events else set()
    return {event for event in subject.events if not words.isdisjoint(spell(event))}


def _find_word(text: str, word: str) -> Iterator[Span]:
    for spelling in spell(word):
        if spelling in text:
            yield from (match.span() for match in re.finditer(f"{BEFORE}{re.escape(spelling)}{AFTER}", text))


def _find_named(text: str, column: str, ids: "set[str] | frozenset[str]") -> Iterator[Span]:
    """Yield the values after a column's name that are one of some ids."""
    for match in re.finditer(rf"(?<!\w){re.escape(column)}{QUOTE}?\s*[:=]\s*{VALUE}", text):
        group = "bare" if match["quoted"] is None else "quoted"
        if _read(match[group]) in ids:
            yield match.span(group)


def _read(written: str) -> str | None:
    with suppress(ValueError):
        written = json.loads(f'"{written}"')
    return values.canonical(html.unescape(written))
