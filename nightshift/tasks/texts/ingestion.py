"""The rules for texts."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nightshift.classification import texts
from nightshift.config.texts import TextConfig, TextTaskConfig

SHINGLE = 5  # characters; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.2.2
LOOK = (0.1, 0.9)  # what costs more: to look at a pair in vain, or to miss one
PERMUTATIONS = 128  # by which similarities are off by some 0.04

if TYPE_CHECKING:
    import pandas as pd


def faults(typed: "pd.DataFrame", config: TextConfig) -> "pd.Series":
    """Return for each row the rule that rejects its content, or null."""
    return find_faults(typed["text"], config.task)


def near_duplicates(contents: "pd.Series", config: TextConfig) -> npt.NDArray[np.bool_]:
    """Return which of a day's good texts are nearly an earlier one, (n,); none where the config does not ask."""
    task = config.task
    return np.zeros(len(contents), bool) if task.near_duplicates is None else find_repeats(contents, task)


def rules(config: TextConfig) -> dict[str, object]:
    """Return what decides which rows are good, beside columns and zone."""
    names = {"classes", "min_side", "max_pixels", "max_characters", "near_duplicates"}
    return config.task.model_dump(include=names)


def find_faults(contents: "pd.Series", task: TextTaskConfig) -> "pd.Series":
    """Return for each text the rule that rejects it, or null."""
    return contents.map(lambda content: _fault(content, task)).astype(object)


def find_repeats(contents: "pd.Series", task: TextTaskConfig) -> npt.NDArray[np.bool_]:
    """Return which texts, none of them bad, say nearly what one before them says that does not, (n,).

    The share of shingles that two texts have in common, of all that they have, is estimated by MinHash (Broder, "On the
    resemblance and containment of documents", 1997), and texts to compare with are found by their bands.
    """
    from datasketch import MinHash, MinHashLSH

    staying, repeats = dict[int, MinHash](), np.zeros(len(contents), bool)
    index = MinHashLSH(task.near_duplicates, PERMUTATIONS, weights=LOOK)
    # the scheme is given, since another one may find others
    sketches = MinHash.generator(map(_shingles, contents), num_perm=PERMUTATIONS, scheme="affine32")
    for number, sketch in enumerate(sketches):
        repeats[number] = any(
            sketch.jaccard(staying[earlier]) >= task.near_duplicates for earlier in index.query(sketch)
        )
        if not repeats[number]:
            staying[number] = sketch
            index.insert(number, sketch)
    return repeats


def _shingles(content: str) -> set[bytes]:
    """Return all parts of so many characters, whatever the case and the spaces; a shorter text is its own."""
    plain = " ".join(content.casefold().split())
    return {plain[start : start + SHINGLE].encode() for start in range(max(1, len(plain) - SHINGLE + 1))}


def _fault(content: Any, task: TextTaskConfig) -> str | None:
    if isinstance(content, bytes):
        return "invalid_utf8"
    if not isinstance(content, str):
        return "empty"
    return "too_long" if len(content) > task.max_characters else texts.fault(content)
