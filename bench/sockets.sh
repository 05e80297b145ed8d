#!/usr/bin/env bash
# What sockets by reference give programs, beside the kernel's: TCP over loopback and Unix sockets, in turn, each several
# times.
#
#   sockets.sh [--rounds N] [--json FILE] [JOB...]      (default 5 rounds of all jobs)
#   sockets.sh [--rounds N] --costs FILE                what a message and a copy cost, for `unrack study run drack/fig13 --costs FILE`
#
# Jobs whose program is missing are left out, and said. Needs make build, a C compiler and Python; for all jobs redis,
# iperf3, nginx, wrk, memcached, PostgreSQL (as a user other than root), Go and grpcio. Binary: $UNRACK, or that in
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
