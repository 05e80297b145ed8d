#!/usr/bin/env bash
# Tests a pool across hosts: two virtual machines, each with a separate kernel, share one memory device. Compares every byte of the
# calls between the hosts, and tries every way in which either host can end. At the end, all memory of the device must be free.
#
#   hosts.sh [--kind nvdimm|ivshmem|ivshmem-doorbell] [--calls N] [--rounds N]
#
# --rounds is the number of times that each kind of end is tried (default 1). The binary is $UNRACK, or target/release/unrack
# without that variable. The exit status is 3 if the machine lacks QEMU or a kernel for guests.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=nvdimm calls=10000 rounds=1
while (($#)); do
    case $1 in
        --kind) kind=$2 ;;
        --calls) calls=$2 ;;
        --rounds) rounds=$2 ;;
        *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
    esac
    shift 2
done
unrack=$(realpath "${UNRACK:-target/release/unrack}")
state=$(mktemp -d)
socket=/run/pool.sock
device=/dev/rack-memory
silence=3s
trap '"$unrack" rack down --state "$state" 2> /dev/null || true; rm -rf "$state"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

rack() { "$unrack" rack "$1" --state "$state" "${@:2}"; }
# on HOST COMMAND...: runs this binary in a host.
on() { "$unrack" rack exec --state "$state" "$1" -- "$unrack" "${@:2}"; }
step() { printf '%4d s  %s\n' "$SECONDS" "$*"; }
failed() {
    echo "hosts.sh: $*" >&2
    for log in "$state"/*.log; do echo "--- $log"; tail -n 5 "$log"; done >&2
    exit 1
}

# until_so COMMAND...: repeats a command until it succeeds, for up to a minute.
until_so() {
    for ((try = 0; try < 120; try++)); do
        if "$@" > "$state/tried.log" 2>&1; then return; fi
        sleep 0.5
    done
    failed "not so after a minute: $*"
}

listed() { on "$1" pool ls --socket $socket --json; }
# is HOST EXPRESSION: succeeds if a jq expression holds for the pool's state as the host lists it.
is() { listed "$1" | jq -e "$2" > /dev/null; }
linked='all(.hosts[]; .is_here or .is_linked) and (.hosts | length) == 2'
empty='.free_bytes == .capacity_bytes and .channels == [] and .segments == [] and all(.hosts[]; .claimed_bytes == 0)'

# Whether a client has an open channel, so that its calls are in flight.
called='any(.channels[]; .open)'
# Whether the other host has claimed memory.
claimed='any(.hosts[]; (.is_here | not) and .claimed_bytes > 0)'

declare -A number=([a]=0 [b]=1)
doorbell=()
[[ $kind != *-doorbell ]] || doorbell=(--doorbell /dev/rack-doorbell)
manage() {
    on "$1" pool serve --device $device --host "${number[$1]}" --socket $socket --silence $silence "${doorbell[@]}" \
        > "$state/manager-$1.log" 2>&1 &
}
serve() { on "$1" rpc bench --serve $socket --waiting adaptive > "$state/server-$1.log" 2>&1 & }
# check HOST CALLS: calls the service from a host; its output is in check.json.
check() {
    on "$1" rpc check --pool $socket --calls "$2" --streams "$3" --json > "$state/check.json" 2> "$state/check.log"
}
knows() { listed "$1" | jq -e '.services | length == 1' > /dev/null; }
# stop_in HOST SIGNAL NAME: signals the processes of this binary in a host that have NAME in their command line.
stop_in() { "$unrack" rack exec --state "$state" "$1" -- pkill "-$2" -f "$3" || true; }

step "booting two hosts with one $kind device"
rack up examples/two-hosts.toml --set "device.kind=$kind" > "$state/up.log" || exit $?
on a pool format $device --hosts 2 2> /dev/null
manage a
manage b
until_so is a "$linked"
until_so is b "$linked and $empty"
step "both serve one pool"

serve a
until_so knows b
check b "$calls" 200 || failed "$(cat "$state/check.log")"
step "b calls a: $(jq -c . "$state/check.json")"
if [[ $kind == *-doorbell ]]; then
    is a 'all(.hosts[]; .has_doorbell)' || failed "$(listed a)"
    for host in a b; do
        rings=$(rack exec $host -- grep -h vfio /proc/interrupts | awk '{for (i = 2; $i ~ /^[0-9]+$/; i++) sum += $i} END {print sum + 0}')
        ((rings > 0)) || failed "nothing has rung for host $host"
        step "host $host was rung for $rings times"
    done
fi
stop_in a TERM 'rpc bench'
until_so is b "$empty"
serve b
until_so knows a
check a 300 20 || failed "$(cat "$state/check.log")"
stop_in b TERM 'rpc bench'
until_so is a "$empty"
step "a calls b, and all is given back"

for ((round = 0; round < rounds; round++)); do
    serve a
    until_so knows b

    check b 1000000 10 & caller=$!
    until_so is a "$called"
    stop_in b KILL 'rpc check'
    wait $caller && failed "a client that was killed says that all is well"
    until_so is a '[.channels[], .segments[]] == []'
    step "a client was killed"

    check b 1000000 10 & caller=$!
    until_so is a "$called"
    stop_in b KILL 'pool serve'
    manage b
    wait $caller && failed "calls go on although the manager was killed"
    until_so is a "$linked"
    until_so knows b
    check b 50 5 || failed "$(cat "$state/check.log")"
    step "a manager was killed, and the next took over"

    check b 1000000 10 & caller=$!
    until_so is a "$called"
    rack stop b
    until_so is a 'any(.hosts[]; .standing == "silent")'
    is a '.channels | length >= 1' || failed "what the stopped host may still write was given to others"
    rack cont b
    wait $caller && failed "calls go on although the host was cut off"
    until_so is a "$linked"
    until_so is a '[.channels[], .segments[]] == []'
    until_so knows b
    check b 50 5 || failed "$(cat "$state/check.log")"
    step "a host was stopped for longer than others wait, found itself cut off, and goes on"

    check b 1000000 10 & caller=$!
    # The channel comes first: a host that ends before its first message leaves no memory to fence.
    until_so is a "$called and $claimed"
    rack kill b
    wait $caller && failed "a host that was killed says that all is well"
    until_so is a 'any(.hosts[]; .standing == "silent" and .claimed_bytes > 0)'
    on a pool fence 1 --socket $socket 2> /dev/null
    until_so is a '.channels == [] and all(.hosts[]; .is_here or .standing == "ended" and .claimed_bytes == 0)'
    rack boot b
    manage b
    until_so is b "$linked"
    until_so knows b
    check b 50 5 || failed "$(cat "$state/check.log")"
    step "the client's host was killed, fenced, and booted again"

    check b 1000000 10 & caller=$!
    until_so is a "$called"
    rack kill a
    wait $caller && failed "calls go on although the server's host was killed"
    grep -q 'host' "$state/check.log" || failed "the error names no host: $(cat "$state/check.log")"
    rack boot a
    # A host that boots again needs no fence, because its earlier memory is already freed.
    manage a
    until_so is b "$linked"
    until_so is b "$empty"
    step "the server's host was killed, and booted again"
done

stop_in a TERM 'pool serve'
until_so is b 'any(.hosts[]; .standing == "left")'
is b "$empty" || failed "$(listed b)"
rack down 2> /dev/null
[[ -z $(find "$state" -mindepth 1 ! -name '*.log' ! -name check.json) ]] || failed "something is left in $state"
step "nothing is left"
