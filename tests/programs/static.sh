#!/usr/bin/env bash
# A static program, into which no library can be preloaded: threads, forked workers of a server, and programs that it starts.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

program=$data/static
if [[ ${1:-} == --prepare ]]; then
    mkdir -p "$data"
    gcc -O2 -static -pthread -o "$program" "$programs/native/work.c"
    exit
fi
exec "$program" "$(size 16 512)"
