#!/usr/bin/env bash
# A static program, into which nothing can be preloaded: threads, a server's forked workers, programs that it starts.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

program=$data/static
if [[ ${1:-} == --prepare ]]; then
    mkdir -p "$data"
    gcc -O2 -static -pthread -o "$program" "$programs/native/work.c"
    exit
fi
exec "$program" "$(size 16 512)"
