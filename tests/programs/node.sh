#!/usr/bin/env bash
# Node.js with two workers: JSON, maps, strings, garbage.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
source "$programs/skips.sh"

if [[ ${1:-} == --needs ]]; then
    command -v node > /dev/null || skip node tests/programs "needs Node.js (Debian: nodejs)"
    command -v node > /dev/null
    exit
fi
exec node "$programs/native/work.js" "$(size 20000 150000)"
