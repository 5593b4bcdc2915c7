"""Arrow's tables as frames, value for value."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

NULLABLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")


def to_frame(table: "pa.Table") -> "pd.DataFrame":
    """Return a table as a frame that holds every value as exactly as the table does.

    Raises:
        UserError: when a column has a type of its database's own.
    """
    import pandas as pd
    import pyarrow as pa

    columns = [_readable(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    plain = pa.Table.from_arrays(columns, table.column_names)
    # otherwise a null would turn integers into floats, and ids above 2**53 into other ids
    nullable = {getattr(pa, name.lower())(): pd.api.types.pandas_dtype(name) for name in NULLABLE}
    # pandas' own metadata would hide a column that was an index
    frame: pd.DataFrame = plain.to_pandas(ignore_metadata=True, types_mapper=nullable.get)
    for position, column in enumerate(table.columns):
        if _is_opaque(column.type):
            decimals = frame.iloc[:, position].map(Decimal, na_action="ignore")
            frame.isetitem(position, decimals.to_numpy(dtype=object))
    return frame


def _readable(name: str, column: Any) -> Any:
    """Return a column of Arrow's as one that pandas can hold, value for value, so that the rules judge each."""
    import pyarrow as pa

    if pa.types.is_date(column.type):  # those of Python end with the year 9999
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    if pa.types.is_timestamp(column.type):  # it is UTC, whatever the zone is called
        return column.cast(pa.timestamp(column.type.unit, column.type.tz and "UTC"))
    if isinstance(column.type, pa.BaseExtensionType):
        column = _unwrap(name, column)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # some texts are no UTF-8
        return column.cast(pa.binary())
    return column


def _unwrap(name: str, column: Any) -> Any:
    """Return a column of an extension type as text.

    Raises:
        UserError: when only its database knows how its values are written.
    """
    import pyarrow as pa

    if isinstance(column.type, pa.UuidType):
        return pa.chunked_array([[value and str(value) for value in column.to_pylist()]], pa.string())
    if _is_opaque(column.type) and column.type.type_name != "numeric":
        raise UserError(f"column {name!r} is of type {column.type.type_name}; cast it to text in the query")
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)


def _is_opaque(column_type: Any) -> bool:
    """Return whether a column has a type of PostgreSQL's that Arrow does not have; `numeric` has any precision."""
    import pyarrow as pa

    return isinstance(column_type, pa.OpaqueType)
