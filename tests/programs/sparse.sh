#!/usr/bin/env bash
# A program with a mapping of 4 TiB that touches only a few pages of it.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

exec "$python" "$programs/sparse.py" "$(size 24 256)"
