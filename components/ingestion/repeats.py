"""Event ids that come on more than one day: 8 bytes of each are kept beside its partition, and compared over all days.

An integer is its own key. A text's key is a hash: of 100 million texts some two share it with a probability of 0.0003.
"""

import io
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nightshift import storage
from nightshift.contracts.tables import Partition

if TYPE_CHECKING:
    import pandas as pd

Keys = npt.NDArray[np.uint64]
READS = 16  # files at once, most of whose time is waiting


def keys(ids: "pd.Series") -> Keys:
    """Return the key of each id, none of them missing, uint64 (n,)."""
    import pandas as pd

    if pd.api.types.is_integer_dtype(ids):
        return ids.to_numpy().astype(np.uint64)
    hashes: Keys = pd.util.hash_array(ids.to_numpy(dtype=object))
    return hashes


def write(uri: str, ids: "pd.Series") -> None:
    """Write the sorted keys of a partition's event ids beside it; before its sidecar, which marks both as complete."""
    file = io.BytesIO()
    np.save(file, np.sort(keys(ids)))
    storage.write_bytes(_keys_uri(uri), file.getvalue())


def find(partitions: Iterable[Partition], corrections: bool) -> dict[date, Keys]:
    """Return the keys of event ids that come on several days and stay on one of them, for each of the other days.

    Memory: 16 bytes an event.

    Args:
        partitions: days in order.
        corrections: whether the latest day's row stays; otherwise it is the earliest day's.
    """
    ordered = sorted(partitions, key=lambda part: part.date, reverse=corrections)
    with ThreadPoolExecutor(READS) as pool:
        days = dict(zip([part.date for part in ordered], pool.map(_read_keys, ordered), strict=True))
    repeats = _after_the_first(days)
    return {date.fromisoformat(day): repeats[day] for day in sorted(repeats)}


def _after_the_first(days: Mapping[str, Keys]) -> dict[str, Keys]:
    """Return the keys that a day before has too, of each day that has such; within a day none is there twice."""
    every = np.concatenate(list(days.values()))
    every.sort()
    shared = np.unique(every[1:][every[1:] == every[:-1]])
    seen, repeats = np.zeros(len(shared), bool), dict[str, Keys]()
    for day, own in days.items() if len(shared) else ():
        present = np.isin(shared, own, assume_unique=True)
        if (present & seen).any():
            repeats[day] = shared[present & seen]
        seen |= present
    return repeats


def _read_keys(part: Partition) -> Keys:
    keys_of_day: Keys = np.load(io.BytesIO(storage.read_bytes(_keys_uri(part.uri))))
    return keys_of_day


def _keys_uri(uri: str) -> str:
    return f"{uri}.npy"
