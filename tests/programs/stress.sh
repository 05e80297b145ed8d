#!/usr/bin/env bash
# The stress program: mappings, forks, threads, signals and system calls; the program itself checks every byte.
# Forks throughout.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

exec "${UNRACK_STRESS:?run.sh sets it to the unrack-stress beside unrack}" \
    --seed 1 --threads 3 --memory "$(size 128MiB 256MiB)" --ops-count "$(size 300 1500)"
