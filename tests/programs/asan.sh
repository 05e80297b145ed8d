#!/usr/bin/env bash
# A program with AddressSanitizer, which maps terabytes of shadow memory and checks for leaks when it ends.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
source "$programs/skips.sh"

has_library() {
    [[ $(gcc -print-file-name=libasan.so) == /* ]]
}
if [[ ${1:-} == --needs ]]; then
    has_library || skip sanitizers tests/programs "needs the libraries of gcc's sanitizers"
    has_library
    exit
fi
if [[ ${1:-} == --prepare ]]; then
    mkdir -p "$data"
    gcc -O1 -g -fsanitize=address -pthread -o "$data/asan" "$programs/native/work.c"
    exit
fi
exec "$data/asan" "$(size 16 128)"
