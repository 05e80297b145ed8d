#!/bin/bash
# Compares a short job on an idle machine with the same job next to four busy threads: each result that the second run states
# must lie in the interval that the first run states. UNRACK names the command. Needs an otherwise idle machine: exits with
# status 3 if the first run withholds all results.
set -euo pipefail

unrack=${UNRACK:-target/release/unrack}
python=${PYTHON:-.venv/bin/python}
runs=$(mktemp -d)
busy=()
# Called by the trap.
# shellcheck disable=SC2317,SC2329
finish() {
	((${#busy[@]} == 0)) || kill "${busy[@]}" 2> /dev/null || true
	rm -rf "$runs"
}
trap finish EXIT

compare() {
	"$unrack" compare --json --out "$runs/$1" -- "$python" examples/numpy-job.py 14 > "$runs/$1.json"
}

compare idle
for _ in 1 2 3 4; do
	bash -c 'while :; do :; done' &
	busy+=($!)
done
compare beside

"$python" - "$runs/idle.json" "$runs/beside.json" << 'END'
import json
import sys


def statements(path):
    """Name, value and interval of all that is stated; the interval may be missing."""
    with open(path) as file:
        result = json.load(file)
    found = {}
    for need in result["requirements"]:
        for name in ("max_fetch_us", "min_local"):
            stated = need[name]
            if stated and "withheld" not in stated:
                found[f"{name} at {need['loss']}"] = (stated["value"], stated["low"], stated["high"])
    for fabric in result["fabrics"]:
        if fabric["slowdown"] is not None:
            found[f"slowdown on {fabric['fabric']}"] = (fabric["slowdown"], *fabric["slowdown_ci95"])
    return found


idle, beside = map(statements, sys.argv[1:])
if not idle:
    print("disturbed.sh: the machine is not idle: nothing is stated to compare with", file=sys.stderr)
    sys.exit(3)
outside = []
for name, (value, low, high) in beside.items():
    if name not in idle:
        print(f"disturbed.sh: not compared, withheld on the idle machine: {name}")
        continue
    _, least, most = idle[name]
    stated = low if value is None else value
    if stated < least or (most is not None and stated > most):
        outside.append(f"{name}: {stated} is not within {least} to {most}")
print(f"disturbed.sh: {len(idle)} statements idle, {len(beside)} beside other work, {len(outside)} outside")
sys.exit("\n".join(outside) if outside else 0)
END
