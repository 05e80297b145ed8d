"""Tables that other libraries read without a copy, by Arrow's C interface."""

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

    Whatever speaks Arrow's C interface takes it as it is (`polars.DataFrame(table)`, `pyarrow.table(table)`, duckdb by name). pandas
    copies it.
    Columns are described where the table is returned; times end in `_ps` (picoseconds) or `_ns`.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "Table":
        """Reads a Parquet file, such as one of a run folder. Raises `Failed` if it cannot be read."""
        return cls(_native.read_table(path_of("path", path)))

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in their order."""
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
        """Returns the table as a frame of polars, which has to be installed."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns the table as a frame of pandas, which has to be installed (3.0 or later). That has a copy of the table."""
        import pandas

        return pandas.DataFrame.from_arrow(self)

    def to_arrow(self) -> "pyarrow.Table":
        """Returns the table as one of pyarrow, which has to be installed."""
        import pyarrow

        return pyarrow.table(self)
