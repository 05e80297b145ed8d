#!/usr/bin/env bash
# What the hardware takes, as rows of rtl/README.md's table: LUTs of four inputs, registers, bits of memory, and levels of
# LUTs between two registers. `rtl/synth.sh YOSYS [DESIGN...]`; a design is a module and its parameters:
# `switch,PORTS=8`. Fails if the table has another row.
#
# Every module is mapped once, whatever the number of its instances, and nothing across its borders: so the sum is exact
# for the netlist that it makes. Levels are of the whole, flattened after mapping; where that is more than yosys can hold,
# there is a dash.
set -euo pipefail
cd "$(dirname "$0")/.."
yosys=$1
shift
designs=("$@")
if ((${#designs[@]} == 0)); then
	designs=(pcs_encoder pcs_decoder block_sync preemption_mux reassembly line_tx line_rx message_parser control_builder)
	designs+=(data_builder outbox modify_unit "host,NODES=8")
	for places in 8 16 64 144; do
		bits=0
		while ((1 << bits < places)); do bits=$((bits + 1)); done
		designs+=("ordered_list,PLACES=$places,NAME=$bits,KEY=48")
	done
	for ports in 8 64 144; do designs+=("source_queues,PORTS=$ports,ACTIVE=6,TAG=9"); done
	for ports in 4 8 16 64 144; do designs+=("pim_scheduler,PORTS=$ports,ACTIVE=6,TAG=9"); done
	for ports in 4 8 16; do designs+=("switch,PORTS=$ports"); done
fi

differ=0
log=$(mktemp -p rtl .synth.XXXXXX)
trap 'rm -f "$log"' EXIT
packages=(rtl/pcs/pcs_pkg.sv rtl/edm/edm_pkg.sv)
mapfile -t modules < <(ls rtl/*.sv rtl/pcs/[!p]*.sv rtl/pcs/pcs_[de]*.sv rtl/edm/[!e]*.sv)
for design in "${designs[@]}"; do
	IFS=, read -ra parameters <<< "$design"
	top=${parameters[0]}
	set="" levels="flatten; ltp -noff"
	for parameter in "${parameters[@]:1}"; do
		set+=" -chparam ${parameter%=*} ${parameter#*=}"
		if [[ $top =~ ^(pim_scheduler|switch|host)$ ]] && ((${parameter#*=} > 16)); then levels=""; fi
	done
	# Memories stay memories: they are counted in bits, and are where a path begins or ends.
	"$yosys" -q -l "$log" -p "read_verilog -sv ${packages[*]} ${modules[*]}; hierarchy -top $top$set; proc; opt; stat;
		synth -run coarse:fine; chtype -set RAM t:\$mem_v2; synth -lut 4 -run fine:check; stat; $levels" > /dev/null
	# Of each `stat` the last block is of all modules, and in it the first number.
	row=$(awk -v name="$design" '
		/^===/ { luts = registers = 0; if (!is_mapped) bits = 0 }
		/Executing SYNTH pass/ { is_mapped = 1 }
		$NF == "bits" && $(NF - 1) == "memory" && !is_mapped { bits = $1 + 0 }
		$NF == "$lut" { luts = $1 }
		$NF ~ /^\$_.*DFF/ { registers += $1 }
		match($0, /length=[0-9]+/) { levels = substr($0, RSTART + 7, RLENGTH - 7) }
		END { printf "| `%s` | %d | %d | %d | %s |\n", name, luts, registers, bits, levels ? levels : "-" }' "$log")
	printf '%s\n' "$row"
	grep -qFx -- "$row" rtl/README.md || differ=$((differ + 1))
done
if ((differ > 0)); then
	echo "$differ of these rows are not in rtl/README.md" >&2
	exit 1
fi
