#!/usr/bin/env bash
# Runs the test suites of well-known programs natively and below `unrack sockets`. Every connection tries to pass by reference at its
# first call.
#
#   run.sh [NAME...]        NAME is a script in this folder (default: python redis curl)
#
# The exit status is 0 only if no test fails by reference alone, and every suite has connections that were carried by reference. A test
# that also fails natively is counted and reported. The output of the tests stays in target/sockets-suites, in NAME.native and
# NAME.reference. The binary is $UNRACK, or target/release/unrack without that variable. $UNRACK_TIMEOUT ends a suite that hangs
# (seconds, default 3600).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/lib.sh"

usage() {
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

for name in "$@"; do
    if [[ $name == -* || $name == lib || $name == run || ! -x $here/$name.sh ]]; then usage; fi
done
names=("$@")
((${#names[@]})) || names=(python redis curl)
unrack=$(realpath "${UNRACK:-$root/target/release/unrack}")
[[ -x $unrack ]] || { echo "run.sh: no unrack binary; run make build, or name one in UNRACK" >&2; exit 3; }
mkdir -p "$suites"
folder=$(mktemp -d)
running=
trap 'if [[ -n $running ]]; then kill "$running" || true; fi; rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# timed LOG OUT COMMAND...: runs a command in a new process group, which is ended together with it, and sets `seconds` and `status`.
timed() {
    local log=$1 out=$2 start=$SECONDS
    shift 2
    status=0
    timeout -k 10 "${UNRACK_TIMEOUT:-3600}" "$@" > "$out" 2> "$log" < /dev/null &
    running=$!
    wait "$running" || status=$?
    kill -KILL -- "-$running" 2> /dev/null || true
    running=
    seconds=$((SECONDS - start))
}

# tests WORD FILE: prints the names of the tests whose lines begin with this word; `.` selects all tests.
tests() {
    sed -n "s/^$1[a-z]* //p" "$2" | sort -u
}

# number WORD FILE: prints the number of tests whose lines begin with this word.
number() {
    grep -c "^$1 " "$2" || true
}

# list TITLE: prints the names from standard input below a title, if there are any.
list() {
    sed "1s/^/  $1:\n/" | sed '1!s/^/    /'
}

# compare NAME: runs a suite natively and by reference. Fails if a test fails only by reference.
compare() {
    local name=$1 native=$suites/$1.native reference=$suites/$1.reference carried refused native_seconds wrong=0
    : > "$native"
    : > "$reference"
    timed "$native.log" "$native.log" "$here/$name.sh" "$native"
    native_seconds=$seconds
    if ((status)) || [[ -z $(tests pass "$native") ]]; then
        echo "$name: FAIL: its tests do not run natively (status $status); see $native.out and $native.log"
        return 1
    fi
    timed "$reference.log" "$folder/carried" \
        "$unrack" sockets --socket "$folder/sockets.sock" --after 1 --json -- "$here/$name.sh" "$reference"
    if ((status)); then
        echo "$name: FAIL: ended with status $status by reference; see $reference.out and $reference.log"
        return 1
    fi
    carried=$(sed -n 's/.*"carried":\([0-9]*\).*/\1/p' "$folder/carried")
    refused=$(sed -n 's/.*"refused":\([0-9]*\).*/\1/p' "$folder/carried")
    printf '%-8s natively     %5d passed %4d failed %5d s\n' "$name" "$(number pass "$native")" "$(number fail "$native")" "$native_seconds"
    printf '%-8s by reference %5d passed %4d failed %5d s   %d connections carried, %d found the pool full\n' \
        "$name" "$(number pass "$reference")" "$(number fail "$reference")" "$seconds" "${carried:-0}" "${refused:-0}"
    tests fail "$native" | list "fail natively, and are not counted"
    comm -13 <(tests fail "$native") <(tests fail "$reference") > "$folder/fail"
    comm -23 <(tests pass "$native") <(tests . "$reference") > "$folder/missing"
    list "FAIL by reference alone" < "$folder/fail"
    list "FAIL: did not run by reference" < "$folder/missing"
    if [[ -s $folder/fail || -s $folder/missing ]]; then wrong=1; fi
    if ((${carried:-0} == 0)); then
        echo "  FAIL: no connection was carried, so nothing is shown"
        wrong=1
    fi
    return "$wrong"
}

passed=0 failed=0
for name in "${names[@]}"; do
    # The script itself prints the requirements that the machine does not meet.
    if ! "$here/$name.sh" --needs; then continue; fi
    "$here/$name.sh" --prepare
    if compare "$name"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
((failed == 0))
