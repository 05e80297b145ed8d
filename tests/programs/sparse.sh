#!/usr/bin/env bash
# A mapping of 4 TiB, of which little is touched.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

exec "$python" "$programs/sparse.py" "$(size 24 256)"
