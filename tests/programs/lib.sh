# Shared by the scripts in this folder: sizes, the folder for data, and the Python to use. This file is sourced, not run.
#
#   UNRACK_TEST_SCALE  small (seconds natively) or full (the size that the project promises to support)
#   UNRACK_TEST_DATA   folder for inputs, made once by `NAME.sh --prepare` and only read after that
#
# A script must not write text to stdout that can differ from one run to the next.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs=$root/tests/programs
scale=${UNRACK_TEST_SCALE:-small}
data=${UNRACK_TEST_DATA:-$root/target/program-data/alone}/$scale
python=$root/.venv/bin/python
export LC_ALL=C PYTHONHASHSEED=0

# size SMALL FULL: prints the value for the current scale.
size() {
    case $scale in
        small) echo "$1" ;;
        full) echo "$2" ;;
        *) echo "UNRACK_TEST_SCALE is small or full, not $scale" >&2; return 2 ;;
    esac
}

# generate KIND AMOUNT FILE: creates an input unless the file exists.
generate() {
    local file=$data/$3
    if [[ ! -e $file ]]; then
        mkdir -p "$data"
        "$python" "$programs/generate.py" "$1" "$2" > "$file.$$"
        mv "$file.$$" "$file"
    fi
}
