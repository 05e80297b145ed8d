"""Generates TPC-H data of a scale factor in memory, and prints the results of the 22 queries."""

import sys
from pathlib import Path

import duckdb
import duckdb_extension_tpch


def main():
    folder = Path(duckdb_extension_tpch.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    db = duckdb.connect(":memory:", config={"threads": 2})
    db.execute(f"LOAD '{folder / 'tpch.duckdb_extension'}'")
    db.execute(f"CALL dbgen(sf = {float(sys.argv[1])})")
    for number in range(1, 23):
        print(f"query {number}")
        for row in sorted(map(repr, db.execute(f"PRAGMA tpch({number})").fetchall())):
            print(" ", row)


if __name__ == "__main__":
    main()
