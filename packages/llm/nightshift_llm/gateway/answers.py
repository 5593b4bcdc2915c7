"""The opening of an answer, by which a refusal by the model is detected. No more of its text is kept."""

import re

import msgspec

from nightshift_llm.gateway.errors import DECODE_ERRORS

OPENING = 160  # characters
FILTERED = "content_filter"  # an engine's finish reason for filtered content
# a heuristic for English, since engines do not report refusals
REGRET = r"(.{0,20}\b(sorry|unfortunately|apologize|as an AI)\b.{0,24})?"
INABILITY = r"\bI( ?'?a?m)? (can'?t|cannot|can not|won'?t( be able)?|will not|not able|unable)( to)?( \w+)?"
VERBS = "help|assist|provide|comply|answer|fulfill|create|write|discuss|share|give|engage|generate|offer|do"
DECLINED = re.compile(rf"\W*{REGRET}{INABILITY}( ({VERBS})\b|$)", re.IGNORECASE | re.DOTALL)


class AnswerText(msgspec.Struct):
    """A message or a part of one."""

    content: str | None = None
    refusal: str | None = None


class AnswerPiece(msgspec.Struct):
    """The fields of a choice, or of its chunk in a stream, that the gateway reads."""

    text: str | None = None
    delta: AnswerText | None = None
    message: AnswerText | None = None
    finish_reason: str | None = None


class AnswerChunk(msgspec.Struct):
    """An answer, or an event of a streamed one."""

    choices: list[AnswerPiece] = []


class AnswerOpening:
    """The first characters of an answer, collected from its events.

    Attributes:
        choices: most choices with text that came at once: each of them is at least a token.
    """

    def __init__(self) -> None:
        self._text, self._is_refused, self.choices = "", False, 0

    @property
    def is_declined(self) -> bool:
        """Whether the model, or the engine's filter, has declined to answer."""
        return self._is_refused or DECLINED.match(self._text.replace("\u2019", "'")) is not None

    def add(self, data: bytes) -> None:
        """Read an answer, or an event of a streamed one, in JSON; ignored once the opening is complete."""
        if len(self._text) >= OPENING or self._is_refused:
            return
        try:
            pieces = msgspec.json.decode(data, type=AnswerChunk).choices
        except DECODE_ERRORS:  # an event of another kind
            return
        messages = [piece.delta or piece.message or AnswerText(piece.text) for piece in pieces]
        self.choices = max(self.choices, sum(bool(message.content) for message in messages))
        for piece, message in zip(pieces[:1], messages, strict=False):
            self._text = (self._text + (message.content or ""))[:OPENING]
            self._is_refused = bool(message.refusal) or piece.finish_reason == FILTERED
