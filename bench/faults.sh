#!/usr/bin/env bash
# Measures the cost per page fault with eviction, for `unrack run` (blocking and fast) and for kernel swap on zram; then
# the added cost of capturing every transfer, and the cost with a memory node on this machine.
#
#   faults.sh [MEMORY] [LOCAL%]       (default 256MiB 25%)
#
# The lines "floor" are pagers of a hundred lines that only move pages (floor.c): they show the cost of the kernel's interface itself.
#
# All measurements run the same program, `unrack-stress touch`: each pass touches one word of every page, in the same
# random order, so that with a small local share every touch is a fetch. Two more lines show the overhead when all
# memory is local. On a noisy machine, compare the minimum of the passes.
# Needs `make build`. Binaries: $UNRACK and $UNRACK_STRESS, or those in target/release.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
memory=${1:-256MiB}
percent=${2:-25%}
unrack=${UNRACK:-$root/target/release/unrack}
export UNRACK_STRESS=${UNRACK_STRESS:-$root/target/release/unrack-stress}
for file in "$unrack" "$UNRACK_STRESS"; do
    if [[ ! -x $file ]]; then
        echo "faults.sh: no ${file##*/}; run make build" >&2
        exit 3
    fi
done

dir=$(mktemp -d)
nodes=()
trap 'kill "${nodes[@]}" 2> /dev/null || true; rm -rf "$dir"' EXIT

field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<< "$2"; }

# line NAME COMMAND...: prints the cost per page, or the reason why it was not measured.
line() {
    local name=$1 json status=0
    shift
    json=$("$@" 2> "$dir/err") || status=$?
    if ((status != 0)); then
        printf '%-31s not measured: %s\n' "$name" "$(tail -n 1 "$dir/err")"
    else
        printf '%-31s min %9.0f  median %9.0f ns a page\n' "$name" \
            "$(field ns_per_page_min "$json")" "$(field ns_per_page_median "$json")"
    fi
}

# touch_it [--threads=N] COMMAND...: runs `unrack-stress touch` under a command.
touch_it() {
    local threads=--threads=1
    if [[ $1 == --threads=* ]]; then threads=$1; shift; fi
    "$@" "$UNRACK_STRESS" touch --memory "$memory" "$threads" --json
}

# floor KIND THREADS: runs a pager that only moves pages.
floor() {
    [[ -x $dir/floor ]] || cc -O2 -pthread "$root/bench/floor.c" -o "$dir/floor" || return
    "$dir/floor" "$1" "${memory%MiB}" "${percent%\%}" "$2"
}

free=(--latency 0ns --bandwidth 10000Gbps)
paged() { touch_it "$unrack" run "${free[@]}" "$@" --; }

echo "$memory, $percent local, one word of each page written in random order"
line "zram swap" "$root/bench/zram.sh" "$memory" "$percent"
line "floor, blocking" floor blocking 1
line "unrack, blocking" paged --local "$percent"
line "floor, SIGBUS" floor sigbus 1
if "$unrack" run --help 2> /dev/null | grep -q -e --fast; then
    line "unrack, fast" paged --fast --local "$percent"
fi
# Two threads that fault at the same time: the time that each waits per page.
line "zram swap, two threads" "$root/bench/zram.sh" "$memory" "$percent" --threads 2
line "floor, blocking, two threads" floor blocking 2
line "unrack, blocking, two threads" touch_it --threads=2 "$unrack" run "${free[@]}" --local "$percent" --
line "floor, SIGBUS, two threads" floor sigbus 2
line "unrack, fast, two threads" touch_it --threads=2 "$unrack" run "${free[@]}" --fast --local "$percent" --
# Pages in sequential order, which Unrack and the kernel can both fetch ahead of the thread.
in_order() { "$@" "$UNRACK_STRESS" touch --memory "$memory" --order sequential --json; }
line "in order: zram swap, 8 at once" env PAGE_CLUSTER=3 "$root/bench/zram.sh" "$memory" "$percent" --order sequential
line "in order: unrack, blocking" in_order "$unrack" run "${free[@]}" --local "$percent" --
line "in order: --read-ahead 32" in_order "$unrack" run "${free[@]}" --read-ahead 32 --local "$percent" --
line "unrack, blocking, captured" paged --local "$percent" --capture "$dir/trace.parquet"

# serve OPTION ADDRESS [KEYS]: starts a memory node, whose address is then in `at`; with KEYS, a folder of keys, its connections are
# encrypted.
serve() {
    local keys=(${3:+--keys "$3"}) said=$dir/node${#nodes[@]}
    at=
    "$unrack" memory serve "$1" "$2" --capacity 16GiB --per-client 100% "${keys[@]}" --json > "$said" 2> /dev/null &
    nodes+=($!)
    for _ in {1..50}; do
        at=$(sed -n 's/.*"listen":"\([^"]*\)".*/\1/p' "$said")
        if [[ -n $at ]]; then break; fi
        sleep 0.1
    done
}

# remote NAME ADDRESSES [OPTION...]: measures the cost with memory nodes.
remote() {
    line "$1" touch_it "$unrack" run --remote "${@:2}" --local "$percent" --
}
serve --shm "$dir/socket"
remote "unrack, node in shared memory" "$at"
serve --listen 127.0.0.1:0
remote "unrack, node over loopback TCP" "$at"
one=$at
serve --listen 127.0.0.1:0
remote "unrack, two of them, striped" "$one,$at"
remote "unrack, two of them, mirrored" "$one,$at" --mirror
if own=$("$unrack" keys make "$dir/keys") && "$unrack" keys trust "$own" --keys "$dir/keys"; then
    serve --listen 127.0.0.1:0 "$dir/keys"
    remote "unrack, over TCP, encrypted" "$at" --keys "$dir/keys"
fi

echo "all of it local: the overhead where nothing is fetched"
line "native" touch_it env
line "unrack, blocking" paged --local 100%
