#!/usr/bin/env bash
# A session with redis: starts a server on a Unix socket in a temporary folder, fills it with strings, a hash and a
# sorted set, queries it at random with redis-benchmark, rewrites a part of the data, and shuts the server down. The
# data takes about 90 MB and is the same in every run; the script prints its digest.
#
#   unrack compare --local 25% --fabric ideal,edm,cxl,dctcp -- examples/redis-session.sh
#
# REDIS_KEYS is the number of strings of 1000 bytes (default 60000), REDIS_REQUESTS the number of queries (default 60000).
set -euo pipefail

keys=${REDIS_KEYS:-60000}
requests=${REDIS_REQUESTS:-60000}
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
# Sends the commands that an awk program prints, one per line.
fill() { awk -v keys="$keys" "BEGIN { $1 }" | cli --pipe > /dev/null; }
query() { redis-benchmark -s "$dir/socket" -q -n "$requests" -c 8 -P 4 -r "$keys" -t get > /dev/null; }

redis-server --port 0 --unixsocket "$dir/socket" --dir "$dir" --save '' --logfile "$dir/log" \
    --enable-debug-command yes &
server=$!
for _ in {1..600}; do
    if [[ $(cli ping 2> /dev/null) == PONG ]]; then break; fi
    if ! kill -0 "$server" 2> /dev/null; then
        cat "$dir/log" >&2
        exit 1
    fi
    sleep 0.05
done

fill 'for (n = 0; n < keys; n++) printf "SET key:%012d %01000d\n", n, n * 7919'
query
fill 'for (n = 0; n < keys / 4; n++) printf "HSET table field:%d %d\n", n, n * n'
fill 'for (n = 0; n < keys / 2; n++) printf "ZADD ranks %d member:%d\n", n * 7919 % 65536, n'
fill 'for (n = 0; n < keys; n += 5) printf "SET key:%012d %01000d\n", n, n'
query
echo "keys $(cli dbsize), digest $(cli debug digest)"
cli shutdown nosave > /dev/null 2>&1 || true
wait "$server"
server=
