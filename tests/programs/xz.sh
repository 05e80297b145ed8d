#!/usr/bin/env bash
# xz with two threads: the compressed bytes, then the way back.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} == --prepare ]]; then
    generate text "$(size 3000000 48000000)" text
    exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
xz -T2 -6 --block-size="$(size 1MiB 24MiB)" -c "$data/text" > "$dir/text.xz"
xz -T2 -dc "$dir/text.xz" | cmp - "$data/text"
cat "$dir/text.xz"
