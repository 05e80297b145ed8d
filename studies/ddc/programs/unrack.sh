#!/usr/bin/env bash
# Runs one of Unrack's own programs from the folder of the build that runs the study: unrack.sh NAME [ARGUMENT...].
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${UNRACK_BUILD:-$here/../../../target/release}
exec "$build/$1" "${@:2}"
