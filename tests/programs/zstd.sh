#!/usr/bin/env bash
# zstd with two threads and a long window: compares the compressed bytes, then decompresses them.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} == --prepare ]]; then
    generate text "$(size 1000000 32000000)" text-for-zstd
    exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
zstd -q -T2 "-$(size 3 9)" --long=25 -c "$data/text-for-zstd" > "$dir/text.zst"
zstd -q -dc --long=25 "$dir/text.zst" | cmp - "$data/text-for-zstd"
cat "$dir/text.zst"
