#!/usr/bin/env bash
# Runs real programs natively and under `unrack run`, and compares every byte of their output.
#
#   run.sh [--local X]... [--fast] [--scale small|full] [NAME...]
#
# X is a local share such as 25% (default: 25% and 10%); NAME is a script in this folder (default: all).
# The binary is $UNRACK, or without that variable the newer of target/release/unrack and target/ci/unrack.
# $UNRACK_TIMEOUT ends a run that hangs (seconds, default 900). The exit status is 0 only if all programs passed, or if
# this kernel does not allow paging by programs: then all are skipped with a message.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$here/skips.sh"

usage() {
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

shares=() names=() mode=() scale=${UNRACK_TEST_SCALE:-small}
while (($#)); do
    case $1 in
        --local) shares+=("${2:?--local needs a share}") && shift ;;
        --fast) mode=(--fast) ;;
        --scale) scale=${2:?--scale needs small or full} && shift ;;
        -*) usage ;;
        *) names+=("$1") ;;
    esac
    shift
done
((${#shares[@]})) || shares=(25% 10%)
((${#names[@]})) || names=(
    sort numpy sqlite redis database prefork xz zstd gcc duckdb stress sparse static musl go go_static node jvm asan pid
)
export UNRACK_TEST_SCALE=$scale

# Inputs are kept between runs, as long as the scripts that generate them do not change.
if [[ -z ${UNRACK_TEST_DATA:-} ]]; then
    made_by=$(cat "$here"/*.sh "$here/generate.py" "$here"/native/* | cksum | cut -d ' ' -f 1)
    export UNRACK_TEST_DATA=$root/target/program-data/$made_by
    mkdir -p "$UNRACK_TEST_DATA"
    find "$root/target/program-data" -mindepth 1 -maxdepth 1 ! -name "$made_by" -exec rm -rf {} +
fi

newest() {
    local found='' file
    for file in "$root"/target/{release,ci}/unrack; do
        if [[ -x $file && (-z $found || $file -nt $found) ]]; then found=$file; fi
    done
    echo "$found"
}
unrack=${UNRACK:-$(newest)}
if [[ -z $unrack ]]; then
    echo "run.sh: no unrack binary; run make build, or name one in UNRACK" >&2
    exit 3
fi
export UNRACK_STRESS=${UNRACK_STRESS:-$(dirname "$(command -v "$unrack")")/unrack-stress}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0 failed=0

status=0
why=$("$unrack" run "${mode[@]}" --local 1MiB -- true 2>&1) || status=$?
if ((status == 3)); then
    skip userfaultfd tests/programs "$why"
    exit 0
fi

# timed FILE COMMAND...: runs a command, stores its output, and sets `seconds` and `status`.
timed() {
    local file=$1 start=$EPOCHREALTIME
    shift
    status=0
    timeout --foreground -k 10 "${UNRACK_TIMEOUT:-900}" "$@" > "$file" 2> "$file.err" < /dev/null || status=$?
    seconds=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')
}

# verdict NAME SHARE NATIVE_SECONDS REASON: prints the result of a program; without a reason it has passed.
verdict() {
    local word=PASS
    if [[ -n $4 ]]; then
        word=FAIL
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
    printf '%-8s %-6s %9s s native %9s s remote  %s\n' "$1" "$2" "$3" "$seconds" "$word${4:+: $4}"
    if [[ -n $4 ]]; then tail -n 5 "$out/$1.$2.err" | sed 's/^/    /'; fi
}

# away NAME: prints the reason if the memory beyond the local share was not really remote. A program may exceed its share for four
# seconds, because its pages return before a fork, and are evicted one by one for each process afterwards, which takes longer on a
# busy machine. A program that forks throughout exceeds its share for most of its run on any machine, so its fetches are counted
# instead.
away() {
    local forks=0
    if grep -q '^# Forks throughout' "$here/$1.sh"; then forks=1; fi
    awk -v forks=$forks '/"over_limit_s"/ { over = $2 + 0 }
        /"text": "(what|nothing) was / && over > 4 && !forks || /"text": "nothing was remote: no/
        /"fetches"/ && $2 + 0 < 1000 && forks' "$out/summary.json"
}

compare() {
    local name=$1 share=$2 native=$3 reason='' command
    command=("$unrack" run "${mode[@]}" --local "$share" --json "$out/summary.json" -- "$here/$name.sh")
    # Such a script starts unrack itself.
    if grep -q UNRACK_BORROW "$here/$name.sh"; then
        command=(env UNRACK_BORROW="$unrack run --local $share --json $out/summary.json" "$here/$name.sh")
    fi
    timed "$out/$name.$share" "${command[@]}"
    if ((status != 0)); then
        reason="ended with status $status"
    elif [[ -n $(away "$name") ]]; then
        reason=$(away "$name")
    elif ! cmp -s "$out/$name.native" "$out/$name.$share"; then
        reason="$(cmp "$out/$name.native" "$out/$name.$share" 2>&1 | sed 's/.*: *//' || true)"
    fi
    verdict "$name" "$share" "$native" "$reason"
    rm -f "$out/$name.$share"
}

for name in "${names[@]}"; do
    script=$here/$name.sh
    [[ -x $script ]] || { echo "run.sh: no program $name" >&2; exit 2; }
    # The script itself prints the requirements that the machine does not meet.
    if grep -q -e --needs "$script" && ! "$script" --needs; then continue; fi
    if grep -q -e --prepare "$script"; then "$script" --prepare; fi
    timed "$out/$name.native" "$script"
    native=$seconds
    if ((status != 0)); then
        cp "$out/$name.native.err" "$out/$name.alone.err"
        verdict "$name" alone "$native" "does not run natively: status $status"
        continue
    fi
    for share in "${shares[@]}"; do compare "$name" "$share" "$native"; done
    rm -f "$out/$name.native"
done

echo "$passed passed, $failed failed"
((failed == 0))
