# Shared by the jobs in this folder. Each job gets the path of a folder to run in. This file is sourced, not run.
# shellcheck shell=bash
set -euo pipefail
cd "$1"
own=()
trap 'kill "${own[@]}" 2> /dev/null || true; wait 2> /dev/null || true' EXIT

# start COMMAND...: starts a service, which is ended together with the job.
start() {
    "$@" > "service.$((${#own[@]})).log" 2>&1 &
    own+=($!)
}

# until_there COMMAND...: repeats a command until it succeeds, for up to 20 s.
until_there() {
    local attempt
    for ((attempt = 0; attempt < 200; attempt++)); do
        if "$@" > /dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "not there after 20 s: $*"
    exit 1
}

# port: prints a port of this machine at which no process listens.
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
