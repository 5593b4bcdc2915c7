"""Where the arguments, blocks, elements and literals of a file of Terraform stand."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_TOKENS = re.compile(
    r"""
    (?P<heredoc> <<-?(?P<mark>\w+)\n.*?^\s*(?P=mark)\b )
  | (?P<comment> \#[^\n]* | //[^\n]* | /\*.*?\*/ )
  | (?P<string> "(?: [^"\\$] | \\. | \$(?!\{) | \$\{ (?: [^{}"] | "[^"]*" | \{[^{}]*\} )* \} )*" )
  | (?P<number> \d+(?:\.\d+)?\b )
  | (?P<bool> \b(?:true|false)\b )
  | (?P<word> [A-Za-z_][\w-]* )
  | (?P<operator> == | != | <= | >= | && | \|\| | => | \.\.\. | < | > )
  | (?P<assign> = )
  | (?P<open> [\[({] ) | (?P<close> [\])}] )
  | (?P<comma> , ) | (?P<newline> \n )
  | (?P<other> [^\s\w] )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_VALUES = ("string", "number", "bool", "operator")


@dataclass(frozen=True)
class Token:
    """A word of the text and its place there."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Part:
    """A piece of a file.

    Attributes:
        kind: what it is.
        path: names of the blocks and arguments around it, and its own.
        start: of its text.
        end: after its text, the line break or comma included where it can go without the piece.
    """

    kind: Literal["block", "argument", "element", "string", "number", "bool", "operator"]
    path: tuple[str, ...]
    start: int
    end: int

    @property
    def address(self) -> str:
        """Return the path as one text."""
        return ".".join(self.path)


def tokens(text: str) -> list[Token]:
    """Return the words of a text, without comments."""
    every = (Token(str(match.lastgroup), match[0], match.start(), match.end()) for match in _TOKENS.finditer(text))
    return [token for token in every if token.kind != "comment"]


def parts(text: str) -> list[Part]:
    """Return every block, argument, element and literal, each after what it lies in."""
    reader = _Reader(text)
    all_parts = list(reader.body(()))
    assert reader.at == len(reader.tokens), f"read {reader.at} of {len(reader.tokens)} tokens"
    return all_parts


def blocks(text: str) -> list[Part]:
    """Return the outermost blocks of a text that `terraform fmt` has put into its form."""
    return [part for part in parts(text) if part.kind == "block" and text[: part.start][-1:] in ("", "\n")]


class _Reader:
    """Reads from the token at `at` on; each method leaves it after what it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0

    def body(self, path: tuple[str, ...]) -> Iterator[Part]:
        """Read blocks and arguments up to the bracket that closes them, which is left."""
        while (token := self._next("newline", "comma")) and token.kind != "close":
            first = self.at
            while self.tokens[self.at].kind not in ("assign", "open") and self.tokens[self.at].text != ":":
                self.at += 1
            name = tuple(token.text.strip('"') for token in self.tokens[first : self.at])
            if self.tokens[self.at].text == "(":
                self._skip()
                name = ("(...)",)
            is_block = self.tokens[self.at].text == "{"
            yield from self._block(path + name, first) if is_block else self._argument((*path, "".join(name)), first)

    def _block(self, path: tuple[str, ...], first: int) -> Iterator[Part]:
        self.at += 1
        inside = list(self.body(path))
        self.at += 1
        yield Part("block", path, *self._span(first))
        yield from inside

    def _argument(self, path: tuple[str, ...], first: int) -> Iterator[Part]:
        self.at += 1
        inside = list(self._expression(path))
        yield Part("argument", path, *self._span(first))
        yield from inside

    def _expression(self, path: tuple[str, ...]) -> Iterator[Part]:
        """Read up to the line break, comma or closing bracket that ends an expression, which is left."""
        while self.at < len(self.tokens) and self.tokens[self.at].kind not in ("newline", "comma", "close"):
            token = self.tokens[self.at]
            self.at += 1
            if token.kind == "open":
                yield from self._brackets(token, path)
            elif token.kind in _VALUES and token.text != "=>":
                yield Part(token.kind, path, token.start, token.end)

    def _brackets(self, opening: Token, path: tuple[str, ...]) -> Iterator[Part]:
        # brackets right after a name choose an element
        chooses = self.text[opening.start - 1] not in " \n([{"
        first = self._next("newline")
        comprehension = first is not None and first.text == "for"
        if opening.text == "{" and not comprehension:
            yield from self.body(path)
        else:
            yield from self._elements(path, droppable=opening.text == "[" and not comprehension and not chooses)
        self.at += 1

    def _elements(self, path: tuple[str, ...], *, droppable: bool) -> Iterator[Part]:
        while (token := self._next("newline", "comma")) and token.kind != "close":
            first = self.at
            inside = list(self._expression(path))
            while self.tokens[self.at].kind == "newline":  # an expression in brackets goes on after a line break
                self.at += 1
                inside += self._expression(path)
            if droppable:
                yield Part("element", path, *self._span(first))
            yield from inside

    def _next(self, *skipped: str) -> Token | None:
        while self.at < len(self.tokens) and self.tokens[self.at].kind in skipped:
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _skip(self) -> None:
        depth = 0
        while depth or self.tokens[self.at].kind == "open":
            depth += {"open": 1, "close": -1}.get(self.tokens[self.at].kind, 0)
            self.at += 1

    def _span(self, first: int) -> tuple[int, int]:
        """Return from where to where a piece goes, with the comma after it, or else the one before it."""
        start, end = self.tokens[first].start, self.tokens[self.at - 1].end
        following = self.tokens[self.at] if self.at < len(self.tokens) else None
        if following and following.kind == "comma":
            return start, following.end
        if first and self.tokens[first - 1].kind == "comma":
            return self.tokens[first - 1].start, end
        return start, end
