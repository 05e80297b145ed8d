#!/usr/bin/env bash
# Says what a program of a study lacks here, and ends with status 3 if it lacks something: needs.sh COMMAND... [--python MODULE...].
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
of="command"
for name in "$@"; do
    if [[ $name == --python ]]; then
        of="module"
    elif [[ $of == command ]]; then
        command -v "$name" > /dev/null || { echo "$name is not installed: make studies-programs installs it" >&2; exit 3; }
    else
        "$root/.venv/bin/python" -c "import $name" 2> /dev/null \
            || { echo "Python's $name is not installed: make studies-programs installs it" >&2; exit 3; }
    fi
done
