# MariaDB over a Unix socket and over TCP.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
listen=$(port)
as=root
mariadb-install-db --no-defaults --datadir="$PWD/data" --user="$as" --auth-root-authentication-method=normal > init.log 2>&1
# Disable io_uring, which InnoDB uses for its files, because the sockets of a program that uses io_uring are left to the kernel.
start mariadbd --no-defaults --innodb-use-native-aio=0 --datadir="$PWD/data" --user="$as" --socket="$PWD/sql.sock" --port="$listen" --bind-address=127.0.0.1 --pid-file="$PWD/pid"
for by in "--socket=$PWD/sql.sock" "--protocol=tcp --host=127.0.0.1 --port=$listen"; do
    # shellcheck disable=SC2206  # options
    sql=(mariadb --no-defaults -uroot -N $by test)
    until_there "${sql[@]}" -e 'select 1'
    "${sql[@]}" -e 'create or replace table test.t as select seq i, md5(seq) m from seq_1_to_50000; select count(*), sum(i), max(m) from test.t'
    "${sql[@]}" -e 'select * from test.t order by i' | md5sum
    seq 8 | xargs -P 4 -I '{}' "${sql[@]}" -e 'select {}, sum(length(m)) from test.t' | sort -n
done
