"""The rules for texts."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from components.classes import texts
from components.common.config.classes import Texts

SHINGLE = 5  # characters; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.2.2
LOOK = (0.1, 0.9)  # what costs more: to look at a pair in vain, or to miss one
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
    index = MinHashLSH(task.near_duplicates, PERMUTATIONS, weights=LOOK)
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
        return value.decode(texts.ENCODING)
    except UnicodeDecodeError:
        return value


def _fault(content: Any, task: Texts) -> str | None:
    if isinstance(content, bytes):
        return "invalid_utf8"
    if not isinstance(content, str):
        return "empty"
    return "too_long" if len(content) > task.max_characters else texts.fault(content)
