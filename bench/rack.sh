#!/usr/bin/env bash
# Measures how much a pool of NICs speeds up busy hosts of a rack. Real programs run on emulated racks (unrack rack), with the
# kernel's MPTCP over all NICs and with plain TCP over one; the simulator's result for the same scenario is printed next to it.
#
#   rack.sh [NICS] [RATE] [SECONDS]       (default 4 100Mbps 8)
#
# iperf3 sends as many bytes as all NICs can carry in SECONDS, and redis-benchmark sends GETs of 100 kB. Needs root,
# `make build`, iperf3, Python and redis. Binary: $UNRACK, or the one in target/release.
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

on() { "$unrack" rack exec "$1" --state "$state" "${@:2}"; }

up() {
    "$unrack" rack up "$root/examples/drack-2x2.toml" --state "$state" --set network.link.rate="$rate" \
        --set "network.topology={kind=\"$1\", racks=2, hosts_per_rack=$nics}" > /dev/null
}

down() { "$unrack" rack down --state "$state" 2> /dev/null; }

# real TOPOLOGY HOSTS STREAMS DIES [--tcp]: prints the measured Mb/s. HOSTS hosts of one rack send STREAMS streams each, every host
# to a different host of the other rack. If DIES is 1, the first host loses a NIC halfway through.
real() {
    local topology=$1 hosts=$2 streams=$3 dies=$4 flags=("${@:5}") receivers=() senders=()
    up "$topology"
    for ((host = 0; host < hosts; host++)); do
        on $((server + host)) "${flags[@]}" -- iperf3 --server --one-off --json > "$dir/came.$host" &
        receivers+=($!)
    done
    sleep 2
    for ((host = 0; host < hosts; host++)); do
        on "$host" "${flags[@]}" -- iperf3 --client "host$((server + host))" --parallel "$streams" \
            --bytes $((bytes / hosts)) > "$dir/sent.$host" &
        senders+=($!)
    done
    if ((dies)); then
        sleep "$((seconds / 2))"
        on 0 -- ip link set nic1 down
    fi
    wait "${senders[@]}" "${receivers[@]}"
    down
    # All streams begin at the same time, so the duration is that of the slowest.
    python3 -c 'import json, sys
ends = [json.load(open(name))["end"]["sum_received"] for name in sys.argv[1:]]
print("%.1f" % (sum(end["bytes"] for end in ends) * 8e-6 / max(end["seconds"] for end in ends)))' "$dir"/came.*
    rm "$dir"/came.*
}

# simulate TOPOLOGY FABRIC SETS...: prints the summary of a simulation as JSON.
simulate() {
    "$unrack" sim "$root/examples/drack-2x2.toml" --json --set network.link.rate="$rate" \
        --set "network.topology={kind=\"$1\", racks=2, hosts_per_rack=$nics}" --set "fabric={$2}" "${@:3}" 2> /dev/null
}

# simulated TOPOLOGY HOSTS STREAMS DIES FABRIC: prints the simulated Mb/s of the scenario that `real` measures.
simulated() {
    local hosts=$2 streams=$3 dies=$4 json sets=()
    {
        echo src,dst,bytes,start_ns
        for ((n = 0; n < hosts * streams; n++)); do
            echo "$((n % hosts)),$((server + n % hosts)),$((bytes / hosts / streams)),0"
        done
    } > "$dir/stream.csv"
    ((dies)) && sets=(--set "failures=[{node=1, from=\"$((seconds * 500))ms\", detected_after=\"1ms\"}]")
    json=$(simulate "$1" "$5" "${sets[@]}" --set "workload={kind=\"trace\", file=\"$dir/stream.csv\"}")
    python3 -c 'import json, sys; d = json.loads(sys.argv[1]); print("%.1f" % (
        int(sys.argv[2]) * 8e3 / d["sim_time_ns"]))' "$json" "$bytes"
}

# beside NAME KERNEL SIMULATED: prints a measured and a simulated value with their ratio.
beside() {
    awk -v name="$1" -v kernel="$2" -v sim="$3" \
        'BEGIN { printf "%-40s %10.1f %10.1f %10.3f\n", name, kernel, sim, kernel / sim }'
}

# line NAME TOPOLOGY HOSTS STREAMS DIES FABRIC [--tcp]: measures and simulates streams, and prints the line.
line() {
    local kernel sim
    kernel=$(real "${@:2:4}" "${@:7}")
    sim=$(simulated "${@:2:5}")
    beside "$1" "$kernel" "$sim"
}

# redis NAME TOPOLOGY FABRIC [--tcp]: prints the measured and simulated GETs of 100 kB per second over 8 connections.
redis() {
    local gets json sim
    up "$2"
    # The server is killed together with its rack, so the shell need not report its end.
    (on "$server" "${@:4}" -- redis-server --bind 0.0.0.0 --protected-mode no --save "" --dir "$dir") &> /dev/null &
    disown
    sleep 1
    # First writes the key that the second command reads.
    gets=$(on 0 "${@:4}" -- sh -c "redis-benchmark -h host$server -t set -d 100000 -n 20 -c 8 -q > /dev/null;
        redis-benchmark -h host$server -t get -d 100000 -n 1000 -c 8 --csv" | sed -n 's/^"GET","\([0-9.]*\)".*/\1/p')
    down
    json=$(simulate "$2" "$3" --set 'workload={kind="jobs", policy="round-robin", jobs=[{hosts=2, key_value={
        servers=1, requests=1000, connections=8, keys=1, value="100kB", gets_per_set=1000000}}]}')
    sim=$(python3 -c 'import json, sys; print("%.1f" % (1e12 / json.loads(sys.argv[1])["sim_time_ns"]))' "$json")
    beside "$1" "$gets" "$sim"
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
printf '%-40s %10s %10s %10s\n' "GETs of 100 kB a second" kernel simulated ratio
redis "pool" drack "$pool"
redis "own NIC, TCP" torack "$own" --tcp
