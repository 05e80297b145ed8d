#!/usr/bin/env bash
# The stress: maps, forks, threads, signals, system calls; it checks every byte itself.
# Forks throughout.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

exec "${UNRACK_STRESS:?run.sh sets it to the unrack-stress beside unrack}" \
    --seed 1 --threads 3 --memory "$(size 128MiB 256MiB)" --ops-count "$(size 300 1500)"
