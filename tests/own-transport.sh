#!/usr/bin/env bash
# Runs examples/own-transport, to check that all commands of Unrack work with a user-defined fabric and topology.
# usage: own-transport.sh COMMAND, the example's program
set -euo pipefail
command=$(realpath "$1")
cd "$(dirname "$0")/../examples/own-transport"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0

fail() {
	echo "own-transport: $1" >&2
	exit 1
}

# has FILE WORDS: fails unless the file contains these words.
has() {
	grep -q -- "$2" "$1" || fail "no \`$2\` in $(cat "$1")"
	passed=$((passed + 1))
}

# counts FILE: fails unless the summary in a file reports that all messages are complete.
counts() {
	python3 - "$1" <<- 'END' || fail "not all of its messages are complete"
		import json, sys
		run = json.load(open(sys.argv[1]))
		sys.exit(run["messages"] != run["completed"])
	END
	passed=$((passed + 1))
}

for scenario in leaf-spine dragonfly; do
	"$command" scenario check "$scenario.toml" > "$folder/check"
	has "$folder/check" "can be run"
	"$command" sim "$scenario.toml" --out "$folder/$scenario" --json > "$folder/$scenario.json"
	counts "$folder/$scenario.json"
done
"$command" scenario explain leaf-spine.toml > "$folder/explained"
has "$folder/explained" "Packets under way without acknowledgement"
"$command" scenario explain dragonfly.toml > "$folder/explained"
has "$folder/explained" "groups = 5"
"$command" scenario draw dragonfly.toml > "$folder/drawn.svg"
has "$folder/drawn.svg" "switch 19"

# Lost packets are retransmitted, and `--explain` works for this transport.
"$command" sim leaf-spine.toml --set bit_errors.link=1e-7 --json > "$folder/lost.json"
counts "$folder/lost.json"
"$command" sim leaf-spine.toml --explain 17 > "$folder/explained"
has "$folder/explained" "100"

# Wrong keys are named like those of any other fabric.
"$command" scenario check leaf-spine.toml --set fabric.windo=3 2> "$folder/wrong" && fail "a wrong key was accepted"
has "$folder/wrong" "did you mean"
"$command" scenario check leaf-spine.toml --set fabric.protocol=go-back 2> "$folder/wrong" && fail "a wrong name was accepted"
has "$folder/wrong" "go-back-n"
"$command" scenario check dragonfly.toml --set network.topology.groups=9 2> "$folder/wrong" && fail "9 groups were accepted"
has "$folder/wrong" "9 is outside 1 to 5"
"$command" sim leaf-spine.toml --threads 2 2> "$folder/wrong" && fail "it was split"
has "$folder/wrong" "go-back-n"

"$command" sim leaf-spine.toml --set workload.messages=20 --pcap "$folder/packets.pcapng" > /dev/null
[[ -s $folder/packets.pcapng ]] || fail "no packets were captured"
"$command" sweep leaf-spine.toml --set fabric.protocol=go-back-n,dctcp --set workload.load=0.1,0.2 \
	--set workload.messages=200 --out "$folder/sweep" --json > "$folder/sweep.json"
has "$folder/sweep.json" "go-back-n"
"$command" report "$folder/leaf-spine" -o "$folder/report.html" > /dev/null
has "$folder/report.html" "go-back-n"

# The same scenario gives the same tables.
"$command" sim leaf-spine.toml --out "$folder/again" > /dev/null
cmp "$folder/leaf-spine/messages.parquet" "$folder/again/messages.parquet" || fail "two runs differ"
echo "own-transport: $((passed + 3)) passed, 0 failed"
