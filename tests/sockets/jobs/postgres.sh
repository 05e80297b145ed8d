# PostgreSQL over a Unix socket and over TCP: tables, a copy in each direction, and concurrent clients.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
bin=$(dirname "$(compgen -G '/usr/lib/postgresql/*/bin/postgres' | sort -V | tail -1)")
listen=$(port)
"$bin/initdb" -D "$PWD/data" -A trust -U test > init.log 2>&1
start "$bin/postgres" -D "$PWD/data" -k "$PWD" -p "$listen" -c listen_addresses=127.0.0.1 -c fsync=off
for host in "$PWD" 127.0.0.1; do
    sql=(psql -X -q -A -t -h "$host" -p "$listen" -U test -d postgres)
    until_there "${sql[@]}" -c 'select 1'
    "${sql[@]}" -c 'set client_min_messages = error; drop table if exists t; create table t as select i, md5(i::text) m from generate_series(1, 50000) i'
    "${sql[@]}" -c 'copy t to stdout' | md5sum
    "${sql[@]}" -c 'select count(*), sum(i), max(m) from t'
    seq 500 | "${sql[@]}" -c 'create temporary table u (i int)' -c 'copy u from stdin' -c 'select sum(i) from u'
    seq 8 | xargs -P 4 -I '{}' "${sql[@]}" -c 'select {}, sum(length(m)) from t' | sort -n
done
