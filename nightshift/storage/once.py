"""What one process of a machine reads or computes, and all its processes map from one file.

Each function takes the folder that they share; an empty one is of a process alone, which keeps no file.
"""

import os
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from nightshift.storage import locks

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

FOLDER = "NIGHTSHIFT_SHARED"  # the variable by which the launcher of a machine's processes names their folder


def read_frame(folder: str, key: object, read: Callable[[], "pd.DataFrame"]) -> "pd.DataFrame":
    """Return the frame that the first process reads; `key` names it among all of the folder."""
    if not folder:
        return read()
    from pyarrow import feather

    path = write_file(folder, key, lambda draft: feather.write_feather(read(), draft, compression="uncompressed"))
    rows: pd.DataFrame = feather.read_table(path, memory_map=True).to_pandas()
    return rows


def compute_array(folder: str, key: object, compute: "Callable[[], npt.NDArray[Any]]") -> "npt.NDArray[Any]":
    """Return the array that the first process computes; `key` names it among all of the folder."""
    if not folder:
        return compute()
    import numpy as np

    path = write_file(folder, key, lambda draft: _save(draft, compute()))
    mapped: npt.NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)  # PyTorch takes writable memory only
    return mapped


def write_file(folder: str, key: object, write: Callable[[str], None]) -> str:
    """Return the path of the file that the first process writes; when it fails, the next one tries."""
    path = os.path.join(folder, sha256(repr(key).encode()).hexdigest())
    with locks.hold(f"{path}.lock"):
        if not os.path.exists(path):
            write(f"{path}.draft")
            os.replace(f"{path}.draft", path)
    return path


def _save(path: str, values: "npt.NDArray[Any]") -> None:
    import numpy as np

    with open(path, "wb") as draft:
        np.save(draft, values)
