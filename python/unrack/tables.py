"""Tables that other libraries read without a copy, through Arrow's C interface."""

from os import PathLike
from typing import TYPE_CHECKING

from unrack import _native
from unrack.values import path_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """A table: rows of named columns.

    Libraries that support Arrow's C interface read the table without a copy: `polars.DataFrame(table)`, `pyarrow.table(table)`, and
    duckdb by the name of the variable. pandas copies the table. The columns are described at the property or function that
    returns the table; names of times end in `_ps` (picoseconds) or `_ns` (nanoseconds).
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "Table":
        """Reads a Parquet file, such as a table of a run folder. Raises `Failed` if the file cannot be read."""
        return cls(_native.read_table(path_of("path", path)))

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return self._native.columns

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<unrack.Table: {len(self)} rows of {', '.join(self.columns)}>"

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> "polars.DataFrame":
        """Returns the table as a polars data frame. Needs the package polars."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns a copy of the table as a pandas data frame. Needs the package pandas, version 3.0 or later."""
        import pandas

        return pandas.DataFrame.from_arrow(self)

    def to_arrow(self) -> "pyarrow.Table":
        """Returns the table as a pyarrow table. Needs the package pyarrow."""
        import pyarrow

        return pyarrow.table(self)
