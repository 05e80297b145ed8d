#!/usr/bin/env bash
# A redis server under load, whose memory is moved away and back meanwhile: UNRACK_BORROW is the command that takes the memory of a
# running process, whose number is appended. Every key is read back, a child saves the data, and each loan must end without an error.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

keys=$(size 30000 250000)
case ${1:-} in
    --needs)
        source "$programs/skips.sh"
        # The kernel reports forks only to a process with CAP_SYS_PTRACE, which is bit 19.
        capabilities=$((16#$(sed -n 's/^CapEff:\t//p' /proc/self/status)))
        if ! ((capabilities >> 19 & 1)); then
            skip userfaultfd tests/programs "needs CAP_SYS_PTRACE"
            exit 1
        fi
        exit
        ;;
    --prepare)
        generate redis "$keys" commands
        exit
        ;;
esac

dir=$(mktemp -d)
socket=$dir/socket
server='' borrower=''
stop() {
    if [[ -n $borrower ]]; then
        touch "$dir/enough"
        wait "$borrower" || true
    fi
    if [[ -n $server ]]; then
        kill "$server" 2> /dev/null || true
        wait "$server" 2> /dev/null || true
    fi
}
trap 'stop; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

cli() { redis-cli -s "$socket" "$@"; }
saved() { cli info persistence | tr -d '\r' | sed -n "s/^$1://p"; }

redis-server --port 0 --unixsocket "$socket" --dir "$dir" --save '' --enable-debug-command yes \
    --daemonize no --logfile "$dir/log" --activerehashing no &
server=$!
for _ in {1..600}; do
    if [[ $(cli ping 2> /dev/null) == PONG ]]; then break; fi
    sleep 0.1
done

# borrow: takes the server's memory for a second, repeatedly. Prints no text unless a loan fails.
borrow() {
    local loans=0
    until [[ -e $dir/enough ]] && ((loans >= 2)); do
        # The variable is split into the words of a command on purpose.
        # shellcheck disable=SC2086
        $UNRACK_BORROW --pid "$server" --for 1s > "$dir/loan" 2>&1 < /dev/null || { cat "$dir/loan"; return 1; }
        loans=$((loans + 1))
    done
}

cli --pipe < "$data/commands" | grep -E '^errors:'
if [[ -n ${UNRACK_BORROW:-} ]]; then
    borrow > "$dir/loans" &
    borrower=$!
fi
for round in 1 2 3; do
    echo "round $round: keys $(cli dbsize)"
    for ((n = 0; n < keys; n += 3)); do echo "GET key:$n"; done | cli
    cli zrange ranks 0 200 withscores
    cli sort list:0
    echo "digest $(cli debug digest)"
    cli bgsave > /dev/null
    while [[ $(saved rdb_bgsave_in_progress) == 1 ]]; do
        cli set during-save 1 > /dev/null
    done
    echo "save $(saved rdb_last_bgsave_status)"
    cli del during-save > /dev/null
done
if [[ -n $borrower ]]; then
    touch "$dir/enough"
    wait "$borrower" || { echo "a loan failed"; cat "$dir/loans"; }
    borrower=
fi
# The server is in its original state: it serves, and no process traces it.
echo "digest $(cli debug digest)"
sed -n '/^TracerPid/p;/^Seccomp:/p;/^THP_enabled/p' "/proc/$server/status"
