#!/usr/bin/env bash
# Measures programs with sockets by reference and with the kernel's sockets (TCP over loopback and Unix sockets). The kinds of
# sockets take turns in several rounds.
#
#   sockets.sh [--rounds N] [--json FILE] [JOB...]      (default 5 rounds of all jobs)
#   sockets.sh [--rounds N] --costs FILE                measures the cost of a message and of a copy, for `unrack study run drack/fig13 --costs FILE`
#
# A job whose program is missing is skipped with a message. Needs `make build`, a C compiler and Python; all jobs together need
# redis, iperf3, nginx, wrk, memcached, PostgreSQL (as a user other than root), Go and grpcio. Binary: $UNRACK, or the one in
# target/release.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export UNRACK=${UNRACK:-$root/target/release/unrack}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cc -O2 -o "$dir/roundtrip" "$root/bench/sockets/roundtrip.c"
if command -v go > /dev/null; then
    (cd "$root/bench/sockets" && GOCACHE=$dir/go GOFLAGS=-mod=mod go build -o "$dir/hello" hello.go) || true
fi
exec_python=$root/.venv/bin/python
[[ -x $exec_python ]] || exec_python=python3
"$exec_python" "$root/bench/sockets/run.py" --folder "$dir" "$@"
