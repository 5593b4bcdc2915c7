"""A database as a source: a query with the day's date bound to it."""

from collections.abc import Mapping
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from components.ingestion.sources.protocol import RawRows
from nightshift import storage
from nightshift.config import Config
from nightshift.data.databases import Database
from nightshift.runtime.errors import UnavailableError

if TYPE_CHECKING:
    import pandas as pd


class QuerySource:
    """A day's rows are what the config's `source.query` returns for its date.

    The answer to `source.version`, which is quick to get, identifies a day; without it the rows themselves do, so that
    each run reads every day. Rows that come in another order are the same rows.
    """

    has_fixed_dtypes: ClassVar = False
    details: ClassVar[Mapping[str, Any]] = {}  # each day has a hash of its own

    def __init__(self, database: Database, config: Config) -> None:
        self._database = database
        self._config = config

    def name(self, day: date) -> str:
        """Return the database, and the day in it."""
        return f"{self._database.uri}, {day}"

    def absence(self, day: date) -> str:
        """Return that the query has no rows of a day, for a message."""
        return f"source.query returns no row of {day} from {self._database.uri}"

    def has(self, day: date) -> bool:
        """Return whether the query has rows of a day, or the day may lack them."""
        exists = f"select 1 from (\n{self._config.source.pattern}\n) as day_rows limit 1"  # noqa: S608 the query is the config's own
        return self._config.source.may_be_empty(day) or not self._query(exists, day).empty

    def read(self, day: date) -> RawRows:
        """Return a day's rows; with a version they are read when they are loaded.

        Raises:
            UserError: when the database refuses the query.
            UnavailableError: when it does not answer.
        """
        version = self._version(day)
        if version is None:
            frame = self._read_rows(day)
            return RawRows(identify_rows(frame), lambda: frame)
        source = self._config.source
        identity = storage.fingerprint([self._database.uri, source.query, source.version, version])
        return RawRows(identity, partial(self._load, day, version))

    def _load(self, day: date, version: object) -> "pd.DataFrame":
        """Return the rows of a version.

        Raises:
            UnavailableError: when the day has changed since it had this version.
        """
        frame = self._read_rows(day)
        if self._version(day) != version:
            raise UnavailableError(f"{self.name(day)} changed while it was read; run the same command again")
        return frame

    def _version(self, day: date) -> dict[Any, Any] | None:
        query = self._config.source.version
        return self._query(query, day).astype(str).to_dict("list") if query else None

    def _read_rows(self, day: date) -> "pd.DataFrame":
        from nightshift.tasks import columns

        frame = self._query(self._config.source.pattern, day)
        columns.require_once(frame, self._config.columns)
        return frame.loc[:, ~frame.columns.duplicated()]

    def _query(self, query: str, day: date) -> "pd.DataFrame":
        return self._database.read(query, days_bound(day))


def days_bound(day: date) -> Mapping[str, date]:
    """Return what a query's names of dates stand for."""
    return {"date": day, "next_date": day + timedelta(days=1)}


def identify_rows(frame: "pd.DataFrame") -> str:
    """Return the hash of rows, in whatever order they come: a database has none unless the query says `order by`."""
    import pandas as pd

    rows = np.sort(pd.util.hash_pandas_object(frame, index=False).to_numpy())
    dtypes = [[str(name), str(dtype)] for name, dtype in frame.dtypes.items()]
    return storage.fingerprint([dtypes, storage.sha256(rows.tobytes())])
