#!/usr/bin/env bash
# curl's test suite: curl, programs that use its library, and servers for each protocol.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

version=7.88.1
sum=cdb38b72e36bc5d33d5b8810f8018ece1baa29a8f215b4495e495ded82bbf3c7

case ${1:?a file for results, --needs or --prepare} in
    --needs)
        needs curl cc make perl || exit 1
        if [[ -e /usr/include/openssl/ssl.h ]]; then exit 0; fi
        skip libssl-dev tests/sockets/curl "OpenSSL's headers are missing"
        exit 1
        ;;
    --prepare)
        fetched "pool/main/c/curl/curl_$version.orig.tar.gz" "$sum"
        unpacked "curl-$version" "curl_$version.orig.tar.gz"
        cd "$suites/curl-$version"
        if [[ -e .built ]]; then exit 0; fi
        {
            ./configure --with-openssl --enable-debug --disable-curldebug --disable-static --disable-dependency-tracking \
                --without-libpsl --without-libidn2 --without-zstd --without-brotli --disable-ldap --without-librtmp CFLAGS=-O1
            make -j "$(nproc)"
            make -j "$(nproc)" -C tests
        } > build.log 2>&1 || { tail build.log >&2; exit 1; }
        touch .built
        exit
        ;;
esac

results=$(realpath "$1")
cd "$suites/curl-$version/tests"
export USER=${USER:-$(id -un)}
# Run without Valgrind, continue after failures, and print the servers' logs of failed tests.
perl runtests.pl -n -a -p < /dev/null > "$results.out" 2>&1 || true

awk '
    match($0, /^test [0-9]+\.\.\./) { test = $2 + 0; name = substr($0, RSTART + RLENGTH) }
    match($0, /^test [0-9]+ SKIPPED/) { print "skip test", $2 + 0 }
    / OK \([0-9]+ +out of / { print "pass test", test, name }
    test != "" { names[test] = name }
    /^TESTFAIL: These test cases failed:/ { for (i = 6; i <= NF; i++) print "fail test", $i, names[$i] }' "$results.out" > "$results"
