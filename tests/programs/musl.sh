#!/usr/bin/env bash
# Programs with the musl C library, dynamic and static, started by a shell. No library can be preloaded into them.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
source "$programs/skips.sh"

if [[ ${1:-} == --needs ]]; then
    command -v musl-gcc > /dev/null || skip musl tests/programs "needs musl-gcc (Debian: musl-tools)"
    command -v musl-gcc > /dev/null
    exit
fi
if [[ ${1:-} == --prepare ]]; then
    mkdir -p "$data"
    musl-gcc -O2 -o "$data/musl" "$programs/native/work.c"
    musl-gcc -O2 -static -o "$data/musl-static" "$programs/native/work.c"
    exit
fi
"$data/musl" "$(size 10 256)"
"$data/musl-static" "$(size 10 256)"
