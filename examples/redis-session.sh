#!/usr/bin/env bash
# A session with redis: a server on a Unix socket in a folder of its own, filled and queried by
# redis-benchmark with fixed numbers of requests over random keys, then shut down. Some 150 MB of data.
#
#   unrack compare --local 25% --fabric ideal,edm,cxl,dctcp -- examples/redis-session.sh
#
# REDIS_REQUESTS sets the length (default 120000 requests for each command).
set -euo pipefail

requests=${REDIS_REQUESTS:-120000}
dir=$(mktemp -d)
server=
stop() {
    if [[ -n $server ]]; then
        kill "$server" 2> /dev/null || true
        wait "$server" 2> /dev/null || true
    fi
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 1' INT TERM

cli() { redis-cli -s "$dir/socket" "$@"; }
load() { redis-benchmark -s "$dir/socket" -q -n "$requests" -c 8 -P 4 "$@" | tr '\r' '\n' | grep 'per second'; }

redis-server --port 0 --unixsocket "$dir/socket" --dir "$dir" --save '' --logfile "$dir/log" &
server=$!
for _ in {1..600}; do
    if [[ $(cli ping 2> /dev/null) == PONG ]]; then break; fi
    if ! kill -0 "$server" 2> /dev/null; then
        cat "$dir/log" >&2
        exit 1
    fi
    sleep 0.05
done

load -t set -r 200000 -d 1000
load -t get -r 200000
load -r 20000 HSET 'hash:__rand_int__' field '__rand_int__'
load -r 200000 ZADD ranks __rand_int__ 'member:__rand_int__'
load -t get -r 200000
echo "keys $(cli dbsize), memory $(cli info memory | tr -d '\r' | sed -n 's/^used_memory_human://p')"
cli shutdown nosave > /dev/null 2>&1 || true
wait "$server"
server=
