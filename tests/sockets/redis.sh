#!/usr/bin/env bash
# redis's test suite: servers, replicas, and clients in Tcl.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

version=7.0.15
sum=4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982
programs=(redis-server redis-cli redis-benchmark redis-check-aof redis-check-rdb)

installed() {
    command -v "${programs[@]}" > /dev/null && [[ $(redis-server --version) == *"v=$version "* ]]
}

case ${1:?a file for results, --needs or --prepare} in
    --needs)
        needs redis tclsh || exit 1
        installed || needs redis cc make
        exit
        ;;
    --prepare)
        fetched "pool/main/r/redis/redis_$version.orig.tar.gz" "$sum"
        unpacked "redis-$version" "redis_$version.orig.tar.gz"
        cd "$suites/redis-$version"
        # Use the installed redis if it has the same version as the tests; otherwise build it from source.
        if installed; then
            for program in "${programs[@]}"; do ln -sf "$(command -v "$program")" "src/$program"; done
        elif ! src/redis-server --version &> /dev/null; then
            make -j "$(nproc)" MALLOC=libc > build.log 2>&1 || { tail build.log >&2; exit 1; }
        fi
        exit
        ;;
esac

results=$(realpath "$1")
cd "$suites/redis-$version"
# The tests sleep most of the time, so run more clients than there are processors.
tclsh tests/test_helper.tcl --clients 4 --durable --timeout 300 < /dev/null > "$results.out" 2>&1 || true

# The names of some tests contain random values.
sed -nE '
    /^\[[a-z]+\]: PSYNC2: (\[NEW LAYOUT\] )?Set #/ b
    /^\[[a-z]+\]: PSYNC2: --- CYCLE / b
    s/ \(x = [0-9]+\)//
    s/^\[ok\]: (.*) \([0-9]+ ms\)$/pass \1/p
    s/^\[err\]: (.*) in (tests.*)$/fail \1/p; t
    s/^\[(err|exception|TIMEOUT)\]: (.*)/fail \2/p
    s/^\[(skip|ignore)\]: (.*)/skip \2/p
    s/^\[[0-9]+\/[0-9]+ done\]: (.*) \([0-9]+ seconds\)$/pass all of \1/p' "$results.out" > "$results"
