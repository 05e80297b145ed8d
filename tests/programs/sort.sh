#!/usr/bin/env bash
# GNU sort with two threads, without temporary files; at full scale its buffers take 380 MB.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lines=$(size 200000 2300000)
if [[ ${1:-} == --prepare ]]; then
    generate records "$lines" records
    exit
fi
exec sort --parallel=2 -S "$(size 40M 460M)" "$data/records"
