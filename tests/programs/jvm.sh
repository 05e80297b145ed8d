#!/usr/bin/env bash
# A Java virtual machine with its default garbage collector: threads, maps, strings, garbage.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
source "$programs/skips.sh"

if [[ ${1:-} == --needs ]]; then
    command -v javac > /dev/null || skip java tests/programs "needs a JDK (Debian: default-jdk-headless)"
    command -v javac > /dev/null
    exit
fi
if [[ ${1:-} == --prepare ]]; then
    mkdir -p "$data"
    javac -d "$data" "$programs/native/Work.java"
    exit
fi
exec java -Xmx"$(size 96m 512m)" -cp "$data" Work "$(size 15000 150000)"
