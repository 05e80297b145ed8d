#!/usr/bin/env python3
"""DuckDB's external sort, in the place of Hadoop's: rows that do not fit into its memory limit are sorted in runs, which go to files.

    duckdb_sort.py [SCALE]

Data are the same in each run, and so is what is printed. SCALE 1 has some 200 MB of rows, and a limit of a half of it.
"""

import sys
import tempfile

import duckdb


def main():
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    rows = int(2_000_000 * scale)
    with tempfile.TemporaryDirectory() as folder:
        base = duckdb.connect()
        base.execute(f"SET temp_directory = '{folder}'")
        base.execute(f"SET memory_limit = '{int(120 * scale) + 60}MB'")
        base.execute("SET threads = 1")
        rows_of = (
            f"SELECT hash(i) AS key, rpad(i::VARCHAR, 90, 'x') AS payload FROM range({rows}) AS numbers(i)"
        )
        ordered = f"SELECT key, payload, row_number() OVER (ORDER BY key) AS place FROM ({rows_of})"
        found = base.execute(
            f"SELECT count(*), max(place), sum((key >> 32) * (place % 1000)), count(DISTINCT payload[:1]) FROM ({ordered})"
        )
        print("sort: " + " ".join(str(value) for value in found.fetchone()))


if __name__ == "__main__":
    main()
