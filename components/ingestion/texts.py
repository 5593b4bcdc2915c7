"""The rules for texts."""

from typing import Any
from unicodedata import category

import numpy as np
import numpy.typing as npt
import pandas as pd

from components.common.config.classes import Texts

# Unicode's general categories of spaces, controls and what has no width, such as a mark of direction
BLANK = ("Zs", "Zl", "Zp", "Cc", "Cf")
SHINGLE = 5  # characters; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.2.2
PERMUTATIONS = 128  # by which similarities are off by some 0.04


def contents(column: pd.Series) -> pd.Series:
    """Return texts without a byte order mark; bytes where they are no UTF-8, null where there is nothing."""
    return column.astype(object).map(_content)


def faults(contents: pd.Series, task: Texts) -> pd.Series:
    """Return for each text the rule that rejects it, or null."""
    return contents.map(lambda content: _fault(content, task)).astype(object)


def repeats(contents: pd.Series, task: Texts) -> npt.NDArray[np.bool_]:
    """Return which texts, none of them bad, say nearly what one before them says that does not, (n,).

    The share of shingles that two texts have in common, of all that they have, is estimated by MinHash (Broder, "On the
    resemblance and containment of documents", 1997), and texts to compare with are found by their bands.
    """
    from datasketch import MinHash, MinHashLSH

    staying, found = dict[int, MinHash](), np.zeros(len(contents), bool)
    index = MinHashLSH(threshold=task.near_duplicates, num_perm=PERMUTATIONS)
    # the scheme is given, since another one may find others
    sketches = MinHash.generator(map(_shingles, contents), num_perm=PERMUTATIONS, scheme="affine32")
    for place, sketch in enumerate(sketches):
        found[place] = any(sketch.jaccard(staying[each]) >= task.near_duplicates for each in index.query(sketch))
        if not found[place]:
            staying[place] = sketch
            index.insert(place, sketch)
    return found


def _shingles(content: str) -> set[bytes]:
    """Return all parts of so many characters, whatever the case and the spaces; a shorter text is its own."""
    plain = " ".join(content.casefold().split())
    return {plain[start : start + SHINGLE].encode() for start in range(max(1, len(plain) - SHINGLE + 1))}


def _content(value: Any) -> Any:
    if isinstance(value, str):  # which may hold half of a surrogate pair, as JSON can name one
        value = value.encode(errors="surrogatepass")
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8-sig")
    except UnicodeDecodeError:
        return value


def _fault(content: Any, task: Texts) -> str | None:
    if isinstance(content, bytes):
        return "invalid_utf8"
    if not isinstance(content, str):
        return "empty"
    if "\0" in content:  # a file that is no text
        return "binary"
    if len(content) > task.max_characters:
        return "too_long"
    return "empty" if all(category(character) in BLANK for character in content) else None
