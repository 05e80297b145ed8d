#!/usr/bin/env bash
# DuckDB: TPC-H generated in memory, all 22 queries, two threads. Scale factor 0.1 at full scale.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

exec "$python" "$programs/duckdb_tpch.py" "$(size 0.01 0.1)"
