"""Which texts can be used, wherever they come from."""

from typing import TYPE_CHECKING
from unicodedata import category

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

ENCODING = "utf-8-sig"  # without a byte order mark

# Unicode's general categories of spaces, controls and what has no width, such as a mark of direction
BLANK = ("Zs", "Zl", "Zp", "Cc", "Cf")

SHINGLE = 5  # characters; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.2.2
LSH_WEIGHTS = (0.1, 0.9)  # what costs more: to look at a pair in vain, or to miss one
PERMUTATIONS = 128  # by which similarities are off by some 0.04


def fault(text: str) -> str | None:
    """Return the rule that rejects a text: `binary` or `empty`, or None."""
    if "\0" in text:  # a file that is no text
        return "binary"
    return "empty" if all(category(character) in BLANK for character in text) else None


def find_repeats(contents: "pd.Series", threshold: float | None) -> npt.NDArray[np.bool_]:
    """Return which texts, none of them bad, say nearly what one before them says that does not, (n,).

    The share of shingles that two texts have in common, of all that they have, is estimated by MinHash (Broder, "On the
    resemblance and containment of documents", 1997), and texts to compare with are found by their bands.

    Args:
        contents: n texts.
        threshold: similarity at or above which one repeats another; None: none does.
    """
    repeats = np.zeros(len(contents), bool)
    if threshold is None:
        return repeats
    from datasketch import MinHash, MinHashLSH

    staying = dict[int, MinHash]()
    index = MinHashLSH(threshold, PERMUTATIONS, weights=LSH_WEIGHTS)
    # the scheme is given, since another one may find others
    sketches = MinHash.generator(map(_shingles, contents), num_perm=PERMUTATIONS, scheme="affine32")
    for row, sketch in enumerate(sketches):
        repeats[row] = any(sketch.jaccard(staying[earlier]) >= threshold for earlier in index.query(sketch))
        if not repeats[row]:
            staying[row] = sketch
            index.insert(row, sketch)
    return repeats


def _shingles(content: str) -> set[bytes]:
    """Return all parts of so many characters, whatever the case and the spaces; a shorter text is its own."""
    plain = " ".join(content.casefold().split())
    return {plain[start : start + SHINGLE].encode() for start in range(max(1, len(plain) - SHINGLE + 1))}
