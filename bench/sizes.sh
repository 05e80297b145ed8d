#!/usr/bin/env bash
# Measures what grows with a program's footprint: the cost of a page fault, the pager's memory per page, the time to start, the time to
# measure the footprint, and the size of the capture on disk. Nothing may grow faster than the pages.
#
#   sizes.sh [LOCAL%] [SIZE...]       (default 50% 100MiB 1GiB 4GiB 12GiB)
#
# The program is `unrack-stress touch`: each pass touches one word of every page in random order. A size that does not fit into this
# machine's memory with room to spare is left out. Needs `make build`. Binaries: $UNRACK and $UNRACK_STRESS, or those in target/release.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
percent=${1:-50%}
shift || true
sizes=("$@")
if ((${#sizes[@]} == 0)); then sizes=(100MiB 1GiB 4GiB 12GiB); fi
unrack=${UNRACK:-$root/target/release/unrack}
stress=${UNRACK_STRESS:-$root/target/release/unrack-stress}
for file in "$unrack" "$stress"; do
    if [[ ! -x $file ]]; then
        echo "sizes.sh: no ${file##*/}; run make build" >&2
        exit 3
    fi
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$2"; }
now() { date +%s.%N; }

# peak COMMAND...: runs a command and prints the largest anonymous memory, in KiB, of the process that runs unrack-stress.
peak() {
    "$@" > "$dir/out" 2> "$dir/err" &
    local job=$! most=0 pid kib
    while kill -0 "$job" 2> /dev/null; do
        for pid in $(pgrep -x unrack-stress || true); do
            kib=$(sed -n 's/RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2> /dev/null || true)
            if ((${kib:-0} > most)); then most=$kib; fi
        done
        sleep 0.05
    done
    wait "$job" || { tail -n 1 "$dir/err" >&2; return 1; }
    echo "$most"
}

free=(--latency 0ns --bandwidth 10000Gbps)
echo "$percent local, one word of each page written in random order"
printf '%-8s %10s %12s %12s %10s %12s %14s\n' size "ns a fault" "bytes a page" "footprint s" "start s" "run s" "capture B/fetch"
for size in "${sizes[@]}"; do
    mib=$(numfmt --from=iec-i --to-unit=1Mi "${size%B}")
    free_mib=$(($(sed -n 's/MemAvailable:[^0-9]*\([0-9]*\).*/\1/p' /proc/meminfo) / 1024))
    if ((mib * 3 / 2 > free_mib)); then
        printf '%-8s left out: %d MiB are available\n' "$size" "$free_mib"
        continue
    fi
    program=("$stress" touch --memory "${mib}MiB" --passes 1 --json)
    native_kib=$(peak "${program[@]}")
    begin=$(now)
    XDG_CACHE_HOME=$dir/cache "$unrack" run --local 100% "${free[@]}" -- "${program[@]}" > /dev/null 2>&1
    first=$(now)
    XDG_CACHE_HOME=$dir/cache "$unrack" run --local 100% "${free[@]}" -- "${program[@]}" > /dev/null 2>&1
    second=$(now)
    XDG_CACHE_HOME=$dir/cache "$unrack" run --local 100% "${free[@]}" --footprint "$size" -- true > /dev/null 2>&1
    third=$(now)
    remote_kib=$(peak "$unrack" run --local "$percent" --footprint "${mib}MiB" "${free[@]}" --capture "$dir/trace.parquet" --json "$dir/run.json" -- "${program[@]}")
    fourth=$(now)
    fetches=$(tr -d ' \n' < "$dir/run.json" | sed -n 's/.*"fetches":\([0-9]*\).*/\1/p')
    capture=$(stat -c %s "$dir/trace.parquet")
    awk -v size="$size" -v ns="$(field ns_per_page_median "$dir/out")" -v kib=$((remote_kib - native_kib)) -v pages=$((mib * 256)) \
        -v a="$begin" -v b="$first" -v c="$second" -v d="$third" -v e="$fourth" -v fetches="$fetches" -v bytes="$capture" 'BEGIN {
        printf "%-8s %10.0f %12.1f %12.2f %10.2f %12.2f %14.1f\n", size, ns, kib * 1024 / pages, (b - a) - (c - b), d - c, e - d, bytes / fetches }'
    rm -f "$dir/trace.parquet"
done
