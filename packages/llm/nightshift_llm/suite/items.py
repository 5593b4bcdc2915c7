"""The items of three tasks, made of documents that a model was not trained on.

- `choice`: which of four continuations is the document's own; the others are those of other documents.
- `cloze`: the last word of a passage.
- `completion`: the next two words, generated.

An item is the beginning of a document. Documents are taken in the order of their hashes, so that the same ones give the
same items in whatever order they come.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from nightshift import storage
from nightshift.runtime.errors import UserError

CONTEXT_WORDS, CONTINUATION_WORDS, COMPLETION_WORDS = 24, 8, 2
CHOICES = 4
WORD = re.compile(r"\s*\S+")
CHOICE, CLOZE, COMPLETION = "choice", "cloze", "completion"


class SuiteItem(msgspec.Struct, frozen=True):
    """One question.

    Attributes:
        context: what comes before.
        choices: continuations, with the space that they begin with.
        answer: index of the document's own continuation.
    """

    context: str
    choices: list[str]
    answer: int = 0

    def __post_init__(self) -> None:
        """Refuse an answer that is none of the choices."""
        if not 0 <= self.answer < len(self.choices):
            raise ValueError(f"answer is {self.answer}, which is none of {len(self.choices)} choices")

    @property
    def target(self) -> str:
        """The document's own continuation."""
        return self.choices[self.answer]


Suite = Mapping[str, Sequence[SuiteItem]]


def build_suite(documents: Sequence[str], count: int) -> Suite:
    """Return task -> items, of each the same number.

    Args:
        documents: texts that the model was not trained on.
        count: items of a task, at most; an item is of one document.

    Raises:
        UserError: when too few documents are long enough.
    """
    passages = _select_passages(documents, count)
    continuations = ["".join(words[CONTEXT_WORDS:]) for words in passages]
    return {
        CHOICE: [_build_choice(words, continuations, index) for index, words in enumerate(passages)],
        CLOZE: [SuiteItem("".join(words[:-1]), words[-1:]) for words in passages],
        COMPLETION: [_build_completion(words) for words in passages],
    }


def _select_passages(documents: Sequence[str], count: int) -> list[list[str]]:
    """Return the first words of documents, in the order of their hashes; no two go on alike."""
    size = CONTEXT_WORDS + CONTINUATION_WORDS
    ordered = sorted(set(map(str.strip, documents)), key=lambda document: storage.sha256(document.encode()))
    passages = [words for document in ordered if len(words := WORD.findall(document)[:size]) == size]
    different = list({"".join(words[CONTEXT_WORDS:]): words for words in passages}.values())[:count]
    if len(different) < CHOICES:
        raise UserError(
            f"documents: {len(different)} have different first {size} words; give at least {CHOICES}, one on each line"
        )
    return different


def _build_choice(words: list[str], continuations: Sequence[str], index: int) -> SuiteItem:
    """Return an item whose wrong choices are the continuations of the documents that follow."""
    context = "".join(words[:CONTEXT_WORDS])
    choices = [continuations[(index + step) % len(continuations)] for step in range(1, CHOICES)]
    answer = int(storage.sha256(context.encode()), 16) % CHOICES
    return SuiteItem(context, [*choices[:answer], continuations[index], *choices[answer:]], answer)


def _build_completion(words: list[str]) -> SuiteItem:
    end = CONTEXT_WORDS + COMPLETION_WORDS
    return SuiteItem("".join(words[:CONTEXT_WORDS]), ["".join(words[CONTEXT_WORDS:end])])
