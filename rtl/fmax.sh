#!/usr/bin/env bash
# What clock designs reach when placed and routed: rtl/README.md's estimates. `rtl/fmax.sh YOSYS NEXTPNR [DESIGN...]`, with
# designs as in rtl/synth.sh.
#
# yosys's `synth_ecp5 -noccu2` (no carry chains, as in that table), the largest ECP5 in its slowest grade, no pins, one
# seed: from register to register, after routing. Memory that is read in the cycle is in LUTs, so `line_rx` has that of
# frames of 1,518 B.
set -euo pipefail
cd "$(dirname "$0")/.."
yosys=$1 nextpnr=$2
shift 2
designs=("$@")
if ((${#designs[@]} == 0)); then
	designs=("ordered_list,PLACES=8,NAME=3,KEY=48" "ordered_list,PLACES=16,NAME=4,KEY=48" line_tx "line_rx,MOST=192,DEPTH=512")
	designs+=("ordered_list,PLACES=64,NAME=6,KEY=48" "pim_scheduler,PORTS=4,ACTIVE=6,TAG=9")
fi

work=$(mktemp -d -p rtl .fmax.XXXXXX)
trap 'rm -rf "$work"' EXIT
packages=(rtl/pcs/pcs_pkg.sv rtl/edm/edm_pkg.sv)
mapfile -t modules < <(ls rtl/*.sv rtl/pcs/[!p]*.sv rtl/pcs/pcs_[de]*.sv rtl/edm/[!e]*.sv)
for design in "${designs[@]}"; do
	IFS=, read -ra parameters <<< "$design"
	top=${parameters[0]}
	set=""
	for parameter in "${parameters[@]:1}"; do set+=" -chparam ${parameter%=*} ${parameter#*=}"; done
	"$yosys" -q -p "read_verilog -sv ${packages[*]} ${modules[*]}; hierarchy -top $top$set;
		synth_ecp5 -noccu2 -json $work/netlist.json" > /dev/null
	"$nextpnr" --85k --speed 6 --out-of-context --json "$work/netlist.json" --freq 400 --seed 1 --timing-allow-fail \
		> "$work/log" 2>&1 || { tail -3 "$work/log" >&2; exit 1; }
	# The last is after routing.
	awk -v name="$design" '
		/Max frequency for clock/ { sub(/.*: /, ""); clock = $1 }
		END { printf "| `%s` | %s MHz |\n", name, clock }' "$work/log"
done
