#!/usr/bin/env bash
# A dynamically linked Go program with goroutines and garbage collection, which starts other programs.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
source "$programs/skips.sh"

go=$(command -v go || echo /usr/local/go/bin/go)
if [[ ${1:-} == --needs ]]; then
    [[ -x $go ]] || skip go tests/programs "needs a Go toolchain"
    [[ -x $go ]]
    exit
fi
if [[ ${1:-} == --prepare ]]; then
    mkdir -p "$data"
    CGO_ENABLED=1 "$go" build -ldflags '-linkmode external' -o "$data/go-dynamic" "$programs/native/work.go"
    exit
fi
exec "$data/go-dynamic" "$(size 20000 200000)"
