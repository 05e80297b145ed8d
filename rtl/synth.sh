#!/usr/bin/env bash
# What the hardware takes, as rows of rtl/README.md's table: LUTs of four inputs, registers, bits of memory, and levels of
# LUTs between two registers. `rtl/synth.sh YOSYS [DESIGN...]`; a design is a module and its parameters: `switch,PORTS=8`.
set -euo pipefail
cd "$(dirname "$0")/.."
yosys=$1
shift
designs=("$@")
if ((${#designs[@]} == 0)); then
	for places in 8 16 64 144 512; do
		bits=0
		while ((1 << bits < places)); do bits=$((bits + 1)); done
		designs+=("ordered_list,PLACES=$places,NAME=$bits,KEY=48")
	done
	for ports in 4 8 16; do designs+=("pim_scheduler,PORTS=$ports,ACTIVE=6,TAG=9"); done
	designs+=(pcs_encoder pcs_decoder block_sync preemption_mux reassembly line_tx line_rx message_parser data_builder)
	for design in host,NODES=8 switch,PORTS=4 switch,PORTS=8; do designs+=("$design"); done
fi

log=$(mktemp -p rtl .synth.XXXXXX)
trap 'rm -f "$log"' EXIT
packages=(rtl/pcs/pcs_pkg.sv rtl/edm/edm_pkg.sv)
mapfile -t modules < <(ls rtl/*.sv rtl/pcs/[!p]*.sv rtl/pcs/pcs_[de]*.sv rtl/edm/[!e]*.sv)
for design in "${designs[@]}"; do
	IFS=, read -ra parameters <<< "$design"
	top=${parameters[0]}
	set=""
	for parameter in "${parameters[@]:1}"; do set+=" -chparam ${parameter%=*} ${parameter#*=}"; done
	# Memories stay memories: they are counted in bits, and are where a path begins or ends.
	"$yosys" -q -l "$log" -p "read_verilog -sv ${packages[*]} ${modules[*]}; hierarchy -top $top$set; proc; flatten; opt;
		stat; synth -run coarse:fine; chtype -set RAM t:\$mem_v2; synth -lut 4 -run fine:check; stat; ltp -noff" > /dev/null
	awk -v name="$design" '
		$2 == "memory" && $3 == "bits" && !bits { bits = $1 }
		$2 == "$lut" { luts = $1 }
		$2 ~ /^\$_.*DFF/ { registers[$2] = $1 }
		match($0, /length=[0-9]+/) { levels = substr($0, RSTART + 7, RLENGTH - 7) }
		END {
			for (kind in registers) all += registers[kind]
			printf "| `%s` | %d | %d | %d | %d |\n", name, luts, all, bits, levels
		}' "$log"
done
