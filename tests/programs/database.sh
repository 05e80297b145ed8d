#!/usr/bin/env bash
# A database under load: four concurrent clients write and read redis, each with separate keys.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

keys=$(size 1000 10000)
dir=$(mktemp -d)
socket=$dir/socket
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

redis-server --port 0 --unixsocket "$socket" --dir "$dir" --save '' --logfile "$dir/log" &
server=$!
for _ in {1..600}; do
    if [[ $(redis-cli -s "$socket" ping 2> /dev/null) == PONG ]]; then break; fi
    kill -0 "$server" || { cat "$dir/log" >&2; exit 1; }
    sleep 0.05
done

# client N: writes its keys, reads them in another order, changes some, and reads again.
client() {
    awk -v n="$1" -v keys="$keys" 'BEGIN {
        value = sprintf("%04000d", n)
        for (i = 0; i < keys; i++) print "SET " n ":" i " " i value
        for (i = 0; i < keys; i++) print "STRLEN " n ":" (i * 7919) % keys
        for (i = 0; i < keys; i += 2) print "APPEND " n ":" (i * 104729) % keys " " i
        for (i = 0; i < keys; i += 5) print "GETRANGE " n ":" (i * 7919) % keys " 0 9"
        for (i = 0; i < keys; i++) print "GETRANGE " n ":" i " -8 -1"
    }' | redis-cli -s "$socket" | cksum > "$dir/$1"
}
for n in 1 2 3 4; do client "$n" & clients[n]=$!; done
for n in 1 2 3 4; do wait "${clients[n]}"; done
cat "$dir"/[1-4]
echo "keys $(redis-cli -s "$socket" dbsize)"
