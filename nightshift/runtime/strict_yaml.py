"""The readers of YAML: `load` for what people write, `load_documents` for programs' output and the project's tables.

People's configs are read by the core schema of YAML 1.2: what it and YAML 1.1 read differently is refused. So is what
hides a value: a key given twice, anchors, merge keys, tags, a second document, an encoding but UTF-8. Programs' output
and tables may have anchors, merge keys and several documents; a key given twice is refused there too, and dates are
texts in both.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import Event

from nightshift.runtime.errors import UserError
from nightshift.runtime.strict_json import CONTROL, DEEPEST, check_text, finite, integer

LARGEST = 1 << 20  # bytes of a file
SHOWN = 50  # characters of a key or a value in a message
CONSTANTS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
NULLS = ("null", "Null", "NULL")
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
# numbers of other schemas (octal, sexagesimal, with underscores), and what is no number in JSON
LIKE_A_NUMBER = re.compile(
    r"(?i)[-+]?(0[xob][0-9a-f_]+|[0-9][0-9_:]*(\.[0-9_]*)?(e[-+]?[0-9_]*)?|\.?(inf|infinity|nan))"
)
TRUTHS = {"yes": "true", "on": "true", "no": "false", "off": "false"}  # in YAML 1.1


def load(content: bytes, name: str) -> Any:
    """Return the value of a YAML file, as JSON has it.

    Args:
        content: of the file.
        name: of the file, for messages.

    Raises:
        UserError: naming line and key of what is no YAML, or can be read in more than one way.
    """
    text = _decode(content, name)
    try:
        return _DocumentReader(name).value(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        remedy = _remedy(text, mark) if mark else ""
        raise UserError(f"{_locate(name, text, line)} is not YAML: {error.problem or error.context}{remedy}") from None


def load_documents(content: bytes | str) -> list[Any]:
    """Return the values of the documents that a program or a table of this project consists of; dates are texts.

    Raises:
        yaml.YAMLError: when it is no YAML, or gives a key twice.
    """
    return list(yaml.load_all(content, _DocumentLoader))


def load_document(content: bytes | str) -> Any:
    """Return the value of the only document, see `load_documents`; None when there is none.

    Raises:
        yaml.YAMLError: when it is no YAML, gives a key twice, or begins a second document.
    """
    return yaml.load(content, _DocumentLoader)  # noqa: S506 - a safe one's subclass


def dump(value: Any) -> str:
    """Return a value as YAML that `load` reads as the same value."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text.rstrip()


def dump_line(value: Any) -> str:
    """Return a value as YAML in one line, which `load` reads as the same value."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=True, width=math.inf
    )
    return text.rstrip()


def is_plain(text: str) -> bool:
    """Whether a text without quotes is one to `load`."""
    return not (text in CONSTANTS or text in NULLS or _objection(text) or FLOAT.fullmatch(text))


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _DocumentLoader(_Loader):  # type: ignore[misc]
    """Refuses a key that is given twice, and leaves dates as they are written."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _Loader.yaml_implicit_resolvers.items()
    }

    def construct_document(self, node: yaml.Node) -> Any:
        """Return the value of a document."""
        _check_keys(node)
        return super().construct_document(node)


def _check_keys(node: yaml.Node) -> None:
    """Refuse a key that is given twice; merge keys are not merged yet."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(item)
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
            keys.add(str(key.value))
            _check_keys(value)


class _Dumper(yaml.SafeDumper):
    """Quotes what would not be text otherwise."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain(text) else '"')


_Dumper.add_representer(str, _represent_text)


def _decode(content: bytes, name: str) -> str:
    if len(content) > LARGEST:
        raise UserError(f"{name} has {len(content)} bytes; a config has at most {LARGEST}")
    if content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{name}, line 1: begins with a byte order mark; save it as UTF-8 without one")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        text, line = content.decode(errors="replace"), content.count(b"\n", 0, error.start)
        raise UserError(f"{_locate(name, text, line)} is not UTF-8; save the file as UTF-8") from None
    # line feeds of Windows stay
    if wrong := CONTROL.search(text.replace("\r\n", "\n")):
        line = text.replace("\r\n", "\n").count("\n", 0, wrong.start())
        raise UserError(f"{_locate(name, text, line)}: holds the control character U+{ord(wrong[0]):04X}; leave it out")
    return text


def _locate(name: str, text: str, line: int) -> str:
    """Return the file, the line and its key, as far as it has one."""
    lines = text.splitlines()
    key = lines[line].partition(":")[0].strip(" -{[\t") if line < len(lines) else ""
    return f"{name}, line {line + 1}" + (f", {key[:SHOWN]!r}" if key else "")


def _remedy(text: str, mark: yaml.Mark) -> str:
    """Return which text of a line to write in quotes, the end of a sentence; empty when there is none."""
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    before, after = re.search(r"[^\[,{]*\Z", line[: mark.column]), re.match(r"[^\],}]*", line[mark.column :])
    word = re.sub(r"^\s*-?\s*[\w-]+:\s", "", (before[0] if before else "") + (after[0] if after else "")).strip()
    return f"; if {word[:SHOWN]!r} is a text, write it in quotes" if word else ""


def _objection(text: str) -> str:
    """Return why a text without quotes is refused; empty when it is not."""
    if truth := TRUTHS.get(text.lower()):
        return f"YAML 1.1 reads it as {truth}, YAML 1.2 as text; write {truth}, a number, or the text in quotes"
    if text in ("", "~"):
        return "write null, or leave the key out"
    if not FLOAT.fullmatch(text) and LIKE_A_NUMBER.fullmatch(text):
        return "write a decimal number such as 90 or 1.5e-3, or in quotes what is text"
    return ""


@dataclass
class _Open:
    """A mapping or sequence that is being read."""

    value: Any
    key: str | None = None
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, item: Any) -> None:
        if isinstance(self.value, dict):
            self.value[self.key], self.key = item, None
        else:
            self.value.append(item)

    @property
    def step(self) -> str:
        return self.key or "" if isinstance(self.value, dict) else str(len(self.value))


class _DocumentReader:
    """Builds the value from the parser's events, without recursion."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[_Open] = []
        self._documents: list[Any] = []

    def value(self, events: Iterator[Event]) -> Any:
        """Return the value of the only document; None when there is none."""
        for event in events:
            self._take(event)
        return self._documents[0] if self._documents else None

    def _take(self, event: Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._descend(event)
        elif isinstance(event, yaml.ScalarEvent):
            self._add(event, self._scalar(event))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = self._open.pop()
            self._add(event, closed.value)
        elif isinstance(event, yaml.AliasEvent):
            raise self._refusal(event, f"*{event.anchor}", "an alias is not read; write out what it stands for")

    def _begin(self, event: yaml.DocumentStartEvent) -> None:
        if self._documents:
            raise self._refusal(event, "---", "a second document begins; give one in a file")
        if event.version or event.tags:
            raise self._refusal(event, "%", "directives are not read; leave them out")

    def _descend(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        self._check_properties(event)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if self._awaits_key:
            raise self._refusal(event, "{" if is_mapping else "[", "a key is text; write it in quotes")
        if len(self._open) == DEEPEST:
            raise self._refusal(event, "{" if is_mapping else "[", f"it is nested more than {DEEPEST} deep")
        self._open.append(_Open({} if is_mapping else []))

    def _add(self, event: Event, item: Any) -> None:
        if not self._open:
            self._documents.append(item)
        elif self._awaits_key:
            self._name_key(event, item)
        else:
            self._open[-1].add(item)

    def _name_key(self, event: Event, key: Any) -> None:
        if not isinstance(key, str):
            raise self._refusal(event, repr(key), "a key is text; write it in quotes")
        if key in self._open[-1].value:
            raise self._refusal(event, key, f"is given in line {self._open[-1].lines[key]} already; give it once")
        self._open[-1].key = key
        self._open[-1].lines[key] = _line(event)

    @property
    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        self._check_properties(event)
        text: str = event.value
        try:
            return _meaning(text) if event.implicit[0] else check_text(text)
        except UserError as error:
            raise self._refusal(event, text, str(error)) from None

    def _check_properties(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.anchor is not None:
            raise self._refusal(event, f"&{event.anchor}", "an anchor is not read; write out what it stands for")
        if event.tag is not None:
            raise self._refusal(event, event.tag, "a tag is not read; leave it out")

    def _refusal(self, event: Event, text: str, reason: str) -> UserError:
        path = [level.step for level in self._open if level.step]
        key = ".".join([*path, text[:SHOWN]] if self._awaits_key else path) or "(top level)"
        value = "" if self._awaits_key else f"is {text[:SHOWN]!r}; "
        return UserError(f"{self._name}, line {_line(event)}, {key}: {value}{reason}")


def _line(event: Event) -> int:
    assert event.start_mark
    return event.start_mark.line + 1


def _meaning(text: str) -> Any:
    """Return what a text without quotes stands for.

    Raises:
        UserError: when it can be read in more than one way.
    """
    if text == "<<":
        raise UserError("a merge key is not read; write out what it stands for")
    if objection := _objection(text):
        raise UserError(objection)
    if text in NULLS:
        return None
    if text in CONSTANTS:
        return CONSTANTS[text]
    if INTEGER.fullmatch(text):
        return integer(text)
    return finite(text) if FLOAT.fullmatch(text) else text
