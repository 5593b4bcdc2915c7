"""Rows that name files, such as images: the files' bytes in place of their names."""

import errno
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from components.ingestion.sources.protocol import EventSource, RawRows
from nightshift import storage
from nightshift.runtime.errors import UserError
from nightshift.storage import clouds

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

STORED = re.compile(f"(?:{'|'.join(clouds.SCHEMES)})://[^:]+")
# Python raises ValueError for a name with a NUL character
ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError)
LONGEST = 1024  # characters of a name: no object store has longer ones
READS = 16  # files at once, most of whose time is waiting


@dataclass(frozen=True)
class FileContents:
    """A source whose rows name image files. A file is taken to stay as it is: only its name is part of a day's hash.

    Attributes:
        table: the rows.
        root: URI of the folder below which the files lie; others are named by an s3:// or gs:// URI.
        column: the user's column of bytes, paths and URIs.
    """

    has_fixed_dtypes: ClassVar = False
    table: EventSource
    root: str
    column: str

    @property
    def details(self) -> Mapping[str, Any]:
        """Those of the table."""
        return self.table.details

    def name(self, day: date) -> str:
        """Return what to call the day's rows in a message."""
        return self.table.name(day)

    def absence(self, day: date) -> str:
        """Return that there is nothing for a day, for a message."""
        return self.table.absence(day)

    def has(self, day: date) -> bool:
        """Return whether there is anything for a day."""
        return self.table.has(day)

    def read(self, day: date) -> RawRows:
        """Return a day's rows; the files are read when they are loaded."""
        raw = self.table.read(day)
        return replace(raw, load=partial(self._load, raw))

    def _load(self, raw: RawRows) -> "pd.DataFrame":
        frame = raw.load()
        if self.column in frame:
            with ThreadPoolExecutor(READS) as pool:
                contents = list(pool.map(partial(read_content, self.root), frame[self.column]))
            frame = frame.assign(**{self.column: _objects(contents)})
        return frame


def read_content(root: str, value: Any) -> Any:
    """Return a file's bytes, or its name where there is no file.

    Args:
        root: URI of the folder below which files lie.
        value: a path below it, the URI of a stored file, or what is no name at all.

    Raises:
        UserError: when it may not be read, or the store refuses.
        UnavailableError: when the store fails in every try.
    """
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST:
        return value
    path = PurePosixPath(value)
    # by :// and :: fsspec would find other places
    inside = not path.is_absolute() and ".." not in path.parts and "://" not in value and "::" not in value
    try:
        if inside or STORED.fullmatch(value):
            return storage.read_bytes(storage.join(root, value) if inside else value)
    except UserError as error:
        if not _is_absence(error.__cause__):  # those the rule missing_file names
            raise
    return value


def _is_absence(cause: BaseException | None) -> bool:
    return isinstance(cause, ABSENT) or (isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG)


def _objects(values: list[Any]) -> "npt.NDArray[np.object_]":
    import numpy as np

    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects
