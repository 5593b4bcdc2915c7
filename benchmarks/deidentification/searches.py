"""How an identifier is searched for in what was cleaned: each of its words that tells something."""

import re
from collections import Counter
from collections.abc import Iterable

from nightshift_image_text.deidentification.known import fold

LEAST = 3  # characters of a word
COMMON = frozenset(
    {
        *(
            "hospital",
            "medical",
            "center",
            "centre",
            "general",
            "university",
            "memorial",
            "clinic",
            "radiology",
            "county",
        ),
        *("infirmary", "institute", "imaging", "health", "east", "royal", "district", "breast", "screening", "unit"),
        *(
            "affairs",
            "veterans",
            "children",
            "orthopaedics",
            "hospitalier",
            "klinikum",
            "lung",
            "the",
            "for",
            "lady",
            "our",
        ),
        *("mount", "street", "avenue", "road", "lane"),
    }
)


def list_words(text: str) -> list[str]:
    """Return the words of an identifier by which it is recognized; a date or a number is one word."""
    if any(character.isdigit() for character in text):
        return [text]
    return [word for word in re.findall(r"\w+", text) if len(word) >= LEAST and fold(word) not in COMMON]


def is_left(text: str, whole: str) -> bool:
    """Tell whether any word of an identifier stands in a text, in any case."""
    folded = fold(whole)
    return any(re.search(_bound(fold(word)), folded) for word in list_words(text))


def count_lost(words: Iterable[str], cleaned: str) -> int:
    """Return how many of some words stand in the cleaned text less often than among them."""
    return (Counter(words) - Counter(re.findall(r"\w+", cleaned))).total()


def _bound(word: str) -> str:
    """Match a number beside no other digit, and a word beside no other letter."""
    edge = r"\d" if word[0].isdigit() else r"[^\W\d_]"
    return rf"(?<!{edge}){re.escape(word)}(?!{edge})"
