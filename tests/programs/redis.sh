#!/usr/bin/env bash
# redis: loads values of many types, reads every key back, saves in the background, and restarts the server from the dump.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

keys=$(size 30000 250000)
if [[ ${1:-} == --prepare ]]; then
    generate redis "$keys" commands
    exit
fi

dir=$(mktemp -d)
socket=$dir/socket
server=
stop() {
    if [[ -n $server ]]; then
        kill "$server" 2> /dev/null || true
        wait "$server" 2> /dev/null || true
        server=
    fi
}
trap 'stop; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

cli() { redis-cli -s "$socket" "$@"; }

start() {
    redis-server --port 0 --unixsocket "$socket" --dir "$dir" --save '' --enable-debug-command yes \
        --daemonize no --logfile "$dir/log" --activerehashing no &
    server=$!
    for _ in {1..600}; do
        if [[ $(cli ping 2> /dev/null) == PONG ]]; then return; fi
        kill -0 "$server" || break
        sleep 0.1
    done
    echo "redis-server does not answer; its log:" >&2
    cat "$dir/log" >&2
    exit 1
}

# saved FIELD: prints a field of the server's persistence information, such as the status of the last save.
saved() { cli info persistence | tr -d '\r' | sed -n "s/^$1://p"; }

start
cli --pipe < "$data/commands" | grep -E '^errors:'
echo "keys $(cli dbsize)"
for ((n = 0; n < keys; n += 3)); do echo "GET key:$n"; done | cli
cli zrange ranks 0 200 withscores
cli sort list:0
digest=$(cli debug digest)
echo "digest $digest"

cli bgsave > /dev/null
while [[ $(saved rdb_bgsave_in_progress) == 1 ]]; do
    # Write while the child saves; the dump must not contain these writes.
    cli set during-save "$RANDOM" > /dev/null
done
echo "save $(saved rdb_last_bgsave_status)"
stop
start
echo "restored keys $(cli dbsize) during-save $(cli exists during-save) digest $(cli debug digest)"
[[ $(cli debug digest) == "$digest" ]]
