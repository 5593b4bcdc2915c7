"""Chats: texts that are JSON lists of messages; a model learns the assistant's messages."""

from collections.abc import Sequence
from typing import Annotated, Literal

import annotated_types
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

ASSISTANT = "assistant"
MARKS = ("<|im_start|>", "<|im_end|>")  # of a message, in ChatML
FORM = 'a JSON list of messages such as [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}]'


class Message(BaseModel):
    """A message of a chat."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, annotated_types.Len(min_length=1)]


_CHAT = TypeAdapter(list[Message])


def parse_chat(text: str) -> Sequence[Message]:
    """Return the messages of a text; none if it is not a chat or has no assistant message."""
    try:
        messages = _CHAT.validate_json(text)
    except ValidationError:
        return []
    return messages if any(message.role == ASSISTANT for message in messages) else []
