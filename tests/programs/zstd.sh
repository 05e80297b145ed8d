#!/usr/bin/env bash
# zstd with two threads and a long window: the compressed bytes, then the way back.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} == --prepare ]]; then
    generate text "$(size 3000000 48000000)" text
    exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
zstd -q -T2 "-$(size 12 16)" --long=25 -c "$data/text" > "$dir/text.zst"
zstd -q -dc --long=25 "$dir/text.zst" | cmp - "$data/text"
cat "$dir/text.zst"
