#!/usr/bin/env bash
# What a pool of NICs gives busy hosts of a rack: real programs on emulated racks (unrack rack), the kernel's MPTCP over
# all NICs beside plain TCP over one, and the simulator's word on the same scenario.
#
#   rack.sh [NICS] [RATE] [SECONDS]       (default 4 100Mbps 8)
#
# Streams of as many bytes as all NICs carry in that time, and GETs of 100 kB by redis-benchmark. Needs root, make build,
# Python, redis. Binary: $UNRACK, or that in target/release.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
nics=${1:-4}
rate=${2:-100Mbps}
seconds=${3:-8}
unrack=${UNRACK:-$root/target/release/unrack}
dir=$(mktemp -d)
state=$dir/state
trap '"$unrack" rack down --state "$state" 2> /dev/null || true; rm -rf "$dir"' EXIT
server=$nics # the first host of the second rack
megabits=${rate%Mbps}
bytes=$((seconds * nics * megabits * 125000))

# receive STREAMS: how many bytes came, from when until when. send HOST STREAMS BYTES.
cat > "$dir/stream.py" << 'PYTHON'
import socket, sys, threading, time

role, streams, port = sys.argv[1], int(sys.argv[2]), 5001
if role == "receive":
    came = []

    def receive(peer):
        total, first = len(peer.recv(1 << 20)), time.monotonic()
        while got := len(peer.recv(1 << 20)):
            total += got
        came.append((total, first, time.monotonic()))

    with socket.create_server(("0.0.0.0", port), backlog=streams) as server:
        threads = [threading.Thread(target=receive, args=server.accept()[:1]) for _ in range(streams)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    totals, firsts, lasts = zip(*came)
    print(sum(totals), min(firsts), max(lasts))
else:
    def send():
        left = int(sys.argv[4])
        with socket.create_connection((sys.argv[3], port)) as peer:
            while left > 0:
                peer.sendall(bytes(min(left, 1 << 18)))
                left -= 1 << 18

    threads = [threading.Thread(target=send) for _ in range(streams)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
PYTHON

on() { "$unrack" rack exec "$1" --state "$state" "${@:2}"; }

up() {
    "$unrack" rack up "$root/examples/drack-2x2.toml" --state "$state" --set network.link.rate="$rate" \
        --set "network.topology={kind=\"$1\", racks=2, hosts_per_rack=$nics}" > /dev/null
}

down() { "$unrack" rack down --state "$state" 2> /dev/null; }

# real TOPOLOGY HOSTS STREAMS DIES [--tcp]: Mb/s of so many streams of each of so many hosts of a rack, to one host each of
# the other; if DIES is 1, the first host loses a NIC in the middle.
real() {
    local topology=$1 hosts=$2 streams=$3 dies=$4 flags=("${@:5}") each receivers=() senders=()
    up "$topology"
    each=$((bytes / hosts / streams))
    for ((host = 0; host < hosts; host++)); do
        on $((server + host)) "${flags[@]}" -- python3 "$dir/stream.py" receive "$streams" > "$dir/came.$host" &
        receivers+=($!)
    done
    sleep 2
    for ((host = 0; host < hosts; host++)); do
        on "$host" "${flags[@]}" -- python3 "$dir/stream.py" send "$streams" "host$((server + host))" "$each" &
        senders+=($!)
    done
    if ((dies)); then
        sleep "$((seconds / 2))"
        on 0 -- ip link set nic1 down
    fi
    wait "${senders[@]}" "${receivers[@]}"
    down
    cat "$dir"/came.* | awk '{ sum += $1; if (NR == 1 || $2 < from) from = $2; if ($3 > to) to = $3 }
        END { printf "%.1f", sum * 8e-6 / (to - from) }'
    rm "$dir"/came.*
}

# simulated TOPOLOGY HOSTS STREAMS DIES FABRIC: the same.
simulated() {
    local topology=$1 hosts=$2 streams=$3 dies=$4 fabric=$5 json sets=()
    {
        echo src,dst,bytes,start_ns
        for ((n = 0; n < hosts * streams; n++)); do
            echo "$((n % hosts)),$((server + n % hosts)),$((bytes / hosts / streams)),0"
        done
    } > "$dir/stream.csv"
    ((dies)) && sets=(--set "failures=[{node=1, from=\"$((seconds * 500))ms\", detected_after=\"1ms\"}]")
    json=$("$unrack" sim "$root/examples/drack-2x2.toml" --json --set network.link.rate="$rate" \
        --set "network.topology={kind=\"$topology\", racks=2, hosts_per_rack=$nics}" "${sets[@]}" \
        --set "workload={kind=\"trace\", file=\"$dir/stream.csv\"}" --set "fabric={$fabric}" 2> /dev/null)
    python3 -c 'import json, sys; d = json.loads(sys.argv[1]); print("%.1f" % (
        int(sys.argv[2]) * 8e3 / d["sim_time_ns"]))' "$json" "$bytes"
}

# line NAME TOPOLOGY HOSTS STREAMS DIES FABRIC [--tcp]
line() {
    local kernel sim
    kernel=$(real "${@:2:4}" "${@:7}")
    sim=$(simulated "${@:2:5}")
    awk -v name="$1" -v kernel="$kernel" -v sim="$sim" \
        'BEGIN { printf "%-40s %10.1f %10.1f %10.3f\n", name, kernel, sim, kernel / sim }'
}

# redis NAME TOPOLOGY [--tcp]
redis() {
    up "$2"
    on "$server" "${@:3}" -- redis-server --bind 0.0.0.0 --protected-mode no --save "" --dir "$dir" > /dev/null &
    # It is killed with its rack: that is no news.
    disown
    sleep 1
    # Fills the key that it then reads.
    local gets
    gets=$(on 0 "${@:3}" -- sh -c "redis-benchmark -h host$server -t set -d 100000 -n 20 -c 8 -q > /dev/null;
        redis-benchmark -h host$server -t get -d 100000 -n 1000 -c 8 --csv" | sed -n 's/^"GET","\([0-9.]*\)".*/\1/p')
    down
    printf '%-40s %10.1f GETs of 100 kB a second\n' "$1" "$gets"
}

pool='protocol="mptcp", coupling="uncoupled"'
own='protocol="tcp"'
printf '%-40s %10s %10s %10s\n' "Mb/s" kernel simulated ratio
line "pool, one stream" drack 1 1 0 "$pool"
line "pool, four streams" drack 1 4 0 "$pool"
line "pool, two busy hosts" drack 2 1 0 "$pool"
line "pool, a NIC dies in the middle" drack 1 1 1 "$pool"
line "own NIC, one stream, TCP" torack 1 1 0 "$own" --tcp
line "own NIC, two busy hosts, TCP" torack 2 1 0 "$own" --tcp
redis "pool, MPTCP" drack
redis "pool, TCP" drack --tcp
redis "own NIC, TCP" torack --tcp
