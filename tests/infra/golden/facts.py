"""Facts as text: each value on a line of its own, what is alike for several keys written once."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 120
ABSENT = "<absent>"
_PLAIN = re.compile(r"[\w./:<>@$*{}()=+%~&|!?;-][\w ./:<>@$*{}()\[\]=+%~&|!?;'-]*")


@dataclass(frozen=True)
class Fact:
    """What is known of one thing.

    Attributes:
        name: of the thing, with an asterisk in the place of its key.
        key: tells things of one name apart; empty when there is one.
        value: a tree of mappings, sequences and scalars.
    """

    name: str
    key: str
    value: Mapping[str, Any]


def text(facts: Sequence[Fact]) -> str:
    """Return facts as a page, those of one name together."""
    named: dict[str, dict[str, Any]] = {}
    for fact in sorted(facts, key=lambda fact: (fact.name, fact.key)):
        assert fact.key not in named.setdefault(fact.name, {}), f"{fact.name} {fact.key} is there twice"
        named[fact.name][fact.key] = opened(fact.value)
    return "".join("\n".join(_thing(name, values)) + "\n" for name, values in named.items())


def renamed(facts: Sequence[Fact], name: str) -> list[Fact]:
    """Return facts with `{environment}` wherever an environment's name stands, but for /dev, pkg.dev and try()."""
    word = re.compile(rf"(?<![/.])\b{re.escape(name)}\b(?!\()")
    return [Fact(fact.name, fact.key, _replaced(opened(fact.value), word, "{environment}")) for fact in facts]


def differences(facts: Sequence[Fact], others: Sequence[Fact]) -> list[Fact]:
    """Return what facts say otherwise than others do, by key: both are known from these and the others.

    Of a mapping there is what differs in it, of everything else the whole; what only the others have is `<absent>`.
    """
    ours, theirs = ({(fact.name, fact.key): opened(fact.value) for fact in side} for side in (facts, others))
    differing = _difference(ours, theirs)
    return [Fact(*key, value if isinstance(value, Mapping) else {"is": value}) for key, value in differing.items()]


def _difference(ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> dict[Any, Any]:
    pairs = {key: (ours.get(key, ABSENT), theirs.get(key, ABSENT)) for key in {*ours, *theirs}}
    return {
        key: _difference(*pair) if all(isinstance(side, Mapping) and side for side in pair) else pair[0]
        for key, pair in pairs.items()
        if pair[0] != pair[1]
    }


def opened(value: Any) -> Any:
    """Return a value with the documents in its texts as trees."""
    if isinstance(value, Mapping):
        return {str(key): opened(nested) for key, nested in value.items()}
    if isinstance(value, list | tuple):
        return [opened(nested) for nested in value]
    return _document(value) if isinstance(value, str) else value


def _document(value: str) -> Any:
    if value[:1] in "{[" and value[:1]:
        try:
            return opened(json.loads(value))
        except ValueError:
            return value
    if len(value) > WIDTH and re.fullmatch(r"[A-Za-z0-9+/\n]+=*", value):
        try:
            return _document(base64.b64decode(value).decode())
        except (binascii.Error, UnicodeDecodeError):
            return value
    return value.rstrip("\n").split("\n") if "\n" in value.rstrip("\n") else value


def _thing(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    keys = list(values)
    yield f"\n{name}" + (f" ({', '.join(keys)})" if keys != [""] else "")
    common = values[keys[0]] if keys == [""] else _merged(values)
    for attribute in sorted(common):
        yield from _lines(f"{attribute}:", common[attribute], 1)


def _merged(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return each attribute once where it is the same, or the same but for the key; else by key."""
    merged = {}
    for attribute in sorted({name for value in values.values() for name in value}):
        by_key = {key: value[attribute] for key, value in values.items() if attribute in value}
        spared = [[_without(entry, key) for key, entry in by_key.items()], [*by_key.values()]]
        alike = [pair[0] for pair in spared if len(pair) == len(values) and all(entry == pair[0] for entry in pair)]
        blocks = {
            key: entry[0] if isinstance(entry, list) and len(entry) == 1 else entry for key, entry in by_key.items()
        }
        if alike:
            merged[attribute] = alike[-1]
        elif len(blocks) == len(values) and all(isinstance(entry, Mapping) for entry in blocks.values()):
            merged[attribute] = _merged(blocks)
        else:
            merged[f"{attribute} by key"] = _grouped(by_key)
    return merged


def _grouped(by_key: Mapping[str, Any]) -> dict[str, Any]:
    keys: dict[str, list[str]] = {}
    for key, value in by_key.items():
        keys.setdefault(_short(value), []).append(key)
    return {", ".join(alike): by_key[alike[0]] for alike in keys.values()}


def _without(value: Any, key: str) -> Any:
    """Return a value with `{key}` wherever its key stands."""
    return _replaced(value, re.compile(rf"\b{re.escape(key)}\b"), "{key}") if key else value


def _replaced(value: Any, word: re.Pattern[str], other: str) -> Any:
    if isinstance(value, Mapping):
        return {_replaced(name, word, other): _replaced(nested, word, other) for name, nested in value.items()}
    if isinstance(value, list):
        return [_replaced(nested, word, other) for nested in value]
    return word.sub(other, value) if isinstance(value, str) else value


def _lines(name: str, value: Any, depth: int) -> Iterator[str]:
    short = f"{'  ' * depth}{name} {_short(value)}"
    if not isinstance(value, Mapping | list) or not value or (len(short) <= WIDTH and _flat(value)):
        yield short
        return
    pairs = sorted(value.items()) if isinstance(value, Mapping) else [("-", nested) for nested in value]
    inner = [line for key, nested in pairs for line in _lines(key if key == "-" else f"{key}:", nested, depth + 1)]
    if name == "-":  # the first stands beside the dash
        yield f"{'  ' * depth}- {inner.pop(0).lstrip()}"
    else:
        yield f"{'  ' * depth}{name}"
    yield from inner


def _flat(value: Any) -> bool:
    """Say whether no collection in a value has collections in turn, but for such of one."""
    inner = value.values() if isinstance(value, Mapping) else value
    return all(
        not isinstance(part, Mapping | list) or len(part) <= 1 or len(_short(part)) < WIDTH / 3 for part in inner
    )


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_short(nested)}" for key, nested in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in ("true", "false", "null"):
        return json.dumps(value) if re.fullmatch(r"[\d.]+", value) else value
    return json.dumps(value, ensure_ascii=False, default=str)
