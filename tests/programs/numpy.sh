#!/usr/bin/env bash
# Python with NumPy, threads and subprocesses.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

export OPENBLAS_NUM_THREADS=2
exec "$python" "$programs/numpy_threads.py" "$(size 1 16)"
