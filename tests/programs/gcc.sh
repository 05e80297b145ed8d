#!/usr/bin/env bash
# gcc at -O2 on one large file; the bytes of the object are compared.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} == --prepare ]]; then
    generate c "$(size 60 400)" work.c
    exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Compile in this folder, because the object contains the path of the source as it is given.
cd "$data"
gcc -O2 -c work.c -o "$dir/work.o"
cat "$dir/work.o"
