"""How a text becomes a language model's input: a part of the model's manifest."""

from typing import Literal

from pydantic import Field

from nightshift.contracts.preprocessing import TokenizedPreprocessing


class LanguagePreprocessing(TokenizedPreprocessing):
    """From a text to a row of tokens, for language models; see `packages/llm/nightshift_llm/task/tokens.py`.

    A row begins with `start` and has `length` tokens more; a shorter text is filled up with `start`. What is only read,
    such as the question of a chat, has the numbers of its tokens raised by `vocabulary`.
    """

    SEEN = frozenset({"tokenizer_sha256", "start", "chat"})
    highest_score = 8.0
    kind: Literal["language-modeling"] = "language-modeling"
    start: int = Field(description="the number of the token that begins a text")
    chat: bool = Field(description="whether texts are chats, of which what the assistant says is predicted")

    @property
    def limit(self) -> int:
        """Exclusive upper bound of the numbers in a row: those that are only read are higher."""
        return 2 * self.vocabulary
