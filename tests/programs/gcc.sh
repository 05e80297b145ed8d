#!/usr/bin/env bash
# gcc at -O2 on one large file: the object's bytes.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} == --prepare ]]; then
    generate c "$(size 60 400)" work.c
    exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The file's name is part of the object.
cd "$data"
gcc -O2 -c work.c -o "$dir/work.o"
cat "$dir/work.o"
