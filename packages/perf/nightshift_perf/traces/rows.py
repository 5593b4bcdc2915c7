"""Rows of a trace, which may take most of the memory there is: gathered and sorted without a second copy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nightshift_perf.traces.trace import Rows

GROWTH = 1 << 18  # rows


class RowBuffer:
    """Rows that become more."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        """Begin without any."""
        self._rows = np.zeros(0, dtype=dtype)
        self._length = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._length

    def extend(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Take some more rows."""
        end = self._length + len(rows)
        if end > len(self._rows):
            self._rows.resize(end + GROWTH, refcheck=False)  # in place, where memory is mapped
        self._rows[self._length : end] = np.array(rows, dtype=self._rows.dtype)
        self._length = end

    def sort(self) -> Rows:
        """Return the rows in order of their first column; nothing can be added any more."""
        self._rows.resize(self._length, refcheck=False)
        columns = self._rows.dtype.names or ()
        keys = self._rows[columns[0]]
        if np.any(keys[1:] < keys[:-1]):
            order = np.argsort(keys, kind="stable")
            for column in columns:
                self._rows[column] = self._rows[column][order]
        return self._rows
