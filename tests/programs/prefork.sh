#!/usr/bin/env bash
# A server that forks its workers, which share what it has read, and change a part of it.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

exec "$python" "$programs/prefork.py" "$(size 24 128)"
