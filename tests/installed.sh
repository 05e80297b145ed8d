#!/usr/bin/env bash
# Installs a build below a new prefix, then builds and runs examples/rpc with that installation: each client calls each server.
# usage: installed.sh FOLDER PROGRAM, the folder of the build and the Rust example's program
set -euo pipefail
build=$(realpath "$1")
rust=$(realpath "$2")
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
prefix=$folder/prefix
export XDG_RUNTIME_DIR=$folder
passed=0

fail() {
	echo "installed: $1" >&2
	exit 1
}

# is WANTED COMMAND...: fails unless the command prints the line WANTED.
is() {
	local wanted=$1 found
	shift
	found=$("$@") || fail "$* failed"
	[[ $found == "$wanted" ]] || fail "$* prints \`$found\`, not \`$wanted\`"
	passed=$((passed + 1))
}

make --no-print-directory -s install PREFIX="$prefix" installed_from="$build" > "$folder/install.log" 2>&1 \
	|| fail "$(tail -5 "$folder/install.log")"
# Move the installation, because it may depend neither on the folder of the build nor on the prefix for which it was installed.
mv "$prefix" "$folder/moved"
prefix=$folder/moved
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib

is "$("$build/unrack" -V)" "$prefix/bin/unrack" -V
is "sim  yes" "$prefix/bin/unrack" doctor sim
# The site is installed if it was built.
if [[ -d ${CARGO_TARGET_DIR:-target}/site ]]; then
	is "$prefix/share/doc/unrack/site/index.html" "$prefix/bin/unrack" docs --print
fi
[[ -s $prefix/share/man/man1/unrack-compare.1 ]] || fail "no manual pages"

# The output of pkg-config is split into several words on purpose.
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -o "$folder/hello" examples/rpc/c/hello.c $(pkg-config --cflags --libs unrack-rpc)
readelf -d "$folder/hello" | grep -q 'NEEDED.*\[libunrack_rpc\.so\.0\]' || fail "the C program does not need the library by its soname"

hello() {
	local language=$1
	shift
	case $language in
		Rust) exec "$rust" "$@" ;;
		C) exec "$folder/hello" "$@" ;;
		Python) PYTHONPATH=python UNRACK_RPC_LIBRARY=$prefix/lib/libunrack_rpc.so.0 exec python3 examples/rpc/python/hello.py "$@" ;;
	esac
}

"$prefix/bin/unrack" pool serve --capacity 64MiB > /dev/null 2>&1 &
until [[ -S $folder/unrack/pool.sock ]]; do sleep 0.05; done
for server in Rust C Python; do
	hello "$server" serve > "$folder/$server.log" 2>&1 &
	serving=$!
	until grep -qs serving "$folder/$server.log"; do
		kill -0 "$serving" 2> /dev/null || fail "$server does not serve: $(cat "$folder/$server.log")"
		sleep 0.05
	done
	for client in Rust C Python; do
		# shellcheck disable=SC2310 # a failure of the client is one of the comparison
		is "Hello, Ada, from $server" hello "$client" call Ada
	done
	kill "$serving"
	wait "$serving" || true
done
echo "installed: $passed passed, 0 failed"
