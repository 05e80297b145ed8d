#!/usr/bin/env bash
# DuckDB with two threads: generates TPC-H in memory and runs all 22 queries. At full scale, the scale factor is 0.1.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

exec "$python" "$programs/duckdb_tpch.py" "$(size 0.01 0.1)"
