#!/usr/bin/env bash
# A server that forks its workers. They share the data that the server has read before the fork, and change a part of it.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

exec "$python" "$programs/prefork.py" "$(size 24 128)"
