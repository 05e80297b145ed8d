#!/usr/bin/env bash
# What a pool of NICs gives one busy host of a rack: real programs on emulated racks (unrack rack), the kernel's
# MPTCP over all NICs beside plain TCP over one, and the simulator's word on the same scenario.
#
#   rack.sh [NICS] [RATE]       (default 4 100Mbps)
#
# A stream of 8 s, and GETs of 100 kB by redis-benchmark. Needs root, make build, Python, redis. Binary: $UNRACK, or
# that in target/release.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
nics=${1:-4}
rate=${2:-100Mbps}
unrack=${UNRACK:-$root/target/release/unrack}
dir=$(mktemp -d)
state=$dir/state
trap '"$unrack" rack down --state "$state" 2> /dev/null || true; rm -rf "$dir"' EXIT
server=$nics # the first host of the second rack

cat > "$dir/stream.py" << 'PYTHON'
import socket, sys, time

host, seconds, port = sys.argv[1], 8.0, 5001
if host == "receive":
    with socket.create_server(("0.0.0.0", port)) as server:
        peer, _ = server.accept()
        total, begin = len(peer.recv(1 << 20)), time.monotonic()
        while got := len(peer.recv(1 << 20)):
            total += got
        print(f"{total * 8 / (time.monotonic() - begin) / 1e6:.1f}")
else:
    with socket.create_connection((host, port)) as peer:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            peer.sendall(bytes(1 << 18))
PYTHON

on() { "$unrack" rack exec "$1" --state "$state" "${@:2}"; }

# line NAME TOPOLOGY [--tcp]: what a stream and redis get.
line() {
    "$unrack" rack up "$root/examples/drack-2x2.toml" --state "$state" --set network.link.rate="$rate" \
        --set "network.topology={kind=\"$2\", racks=2, hosts_per_rack=$nics}" > /dev/null
    on "$server" "${@:3}" -- python3 "$dir/stream.py" receive > "$dir/stream" &
    local receiver=$!
    sleep 1
    on 0 "${@:3}" -- python3 "$dir/stream.py" "host$server"
    wait "$receiver"
    on "$server" "${@:3}" -- redis-server --bind 0.0.0.0 --protected-mode no --save "" --dir "$dir" > /dev/null &
    # It is killed with its rack: that is no news.
    disown
    sleep 1
    # Fills the key that it then reads.
    local gets
    gets=$(on 0 "${@:3}" -- sh -c "redis-benchmark -h host$server -t set -d 100000 -n 20 -c 8 -q > /dev/null;
        redis-benchmark -h host$server -t get -d 100000 -n 1000 -c 8 --csv" | sed -n 's/^"GET","\([0-9.]*\)".*/\1/p')
    "$unrack" rack down --state "$state" 2> /dev/null
    printf '%-28s %8.1f Mb/s   redis %8.1f GET/s of 100 kB\n' "$1" "$(cat "$dir/stream")" "$gets"
}

# simulated NAME TOPOLOGY PROTOCOL...: the same stream.
simulated() {
    local bytes=50000000 json
    printf 'src,dst,bytes,start_ns\n0,%s,%s,0\n' "$server" "$bytes" > "$dir/stream.csv"
    json=$("$unrack" sim "$root/examples/drack-2x2.toml" --json --set network.link.rate="$rate" \
        --set "network.topology={kind=\"$2\", racks=2, hosts_per_rack=$nics}" \
        --set "workload={kind=\"trace\", file=\"$dir/stream.csv\"}" --set "fabric={$3}")
    python3 -c 'import json, sys; d = json.loads(sys.argv[1]); print("%-28s %8.1f Mb/s" % (
        sys.argv[2], int(sys.argv[3]) * 8e3 / d["completion_ns"]["mean"]))' "$json" "$1" "$bytes"
}

line "pool, MPTCP" drack
simulated "  simulated" drack 'protocol="mptcp", coupling="uncoupled"'
line "pool, TCP" drack --tcp
line "own NIC, TCP" torack --tcp
simulated "  simulated" torack 'protocol="tcp"'
