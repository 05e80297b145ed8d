#!/usr/bin/env bash
# xz with two threads: compares the compressed bytes, then decompresses them.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} == --prepare ]]; then
    generate text "$(size 250000 4000000)" text-for-xz
    exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
xz -T2 -3 --block-size="$(size 256KiB 2MiB)" -c "$data/text-for-xz" > "$dir/text.xz"
xz -T2 -dc "$dir/text.xz" | cmp - "$data/text-for-xz"
cat "$dir/text.xz"
