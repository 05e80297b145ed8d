#!/usr/bin/env bash
# What the hardware takes, as rows of rtl/README.md's table: LUTs of four inputs, registers, bits of memory, levels of LUTs
# between two registers, and the clock that these let expect. `rtl/synth.sh YOSYS [DESIGN...]`; a design is a module and
# its parameters: `switch,PORTS=8`. Fails if the table has another row.
#
# Every module is mapped once, whatever the number of its instances, and nothing across its borders: so the sum is exact
# for the netlist that it makes. rtl/levels.py sums up, and finds the longest path through modules as they are. Where a
# whole design is small enough for yosys to hold it flattened, yosys's own count of levels must be the same.
set -euo pipefail
cd "$(dirname "$0")/.."
yosys=$1
shift
designs=("$@")
if ((${#designs[@]} == 0)); then
	designs=(pcs_encoder pcs_decoder block_sync preemption_mux reassembly line_tx line_rx "line_rx,MOST=192,DEPTH=512")
	designs+=(message_parser control_builder data_builder outbox modify_unit "host,NODES=8")
	for places in 8 16 64 144 512; do
		bits=0
		while ((1 << bits < places)); do bits=$((bits + 1)); done
		designs+=("ordered_list,PLACES=$places,NAME=$bits,KEY=48")
	done
	for ports in 8 64 144 512; do designs+=("source_queues,PORTS=$ports,ACTIVE=6,TAG=9"); done
	for ports in 4 8 16 64 144 512; do designs+=("pim_scheduler,PORTS=$ports,ACTIVE=6,TAG=9"); done
	for ports in 4 8 16 64 144; do designs+=("switch,PORTS=$ports"); done
fi

# Picoseconds that a level takes, at least and at most: of the designs that rtl/fmax.sh places and routes.
fastest=1003 slowest=1814

differ=0
work=$(mktemp -d -p rtl .synth.XXXXXX)
trap 'rm -rf "$work"' EXIT
packages=(rtl/pcs/pcs_pkg.sv rtl/edm/edm_pkg.sv)
mapfile -t modules < <(ls rtl/*.sv rtl/pcs/[!p]*.sv rtl/pcs/pcs_[de]*.sv rtl/edm/[!e]*.sv)
for design in "${designs[@]}"; do
	IFS=, read -ra parameters <<< "$design"
	top=${parameters[0]}
	set="" flat="flatten; opt_clean -purge; tee -q -o $work/flat ltp -noff" map="abc9 -lut 4"
	for parameter in "${parameters[@]:1}"; do
		set+=" -chparam ${parameter%=*} ${parameter#*=}"
		if [[ $top =~ ^(pim_scheduler|switch|host)$ ]] && ((${parameter#*=} > 16)); then flat=""; fi
		# The tops of many ports are wires to millions of inputs of their instances, and each is an output for `abc9`, which
		# that is too much for: `abc` maps the little logic there.
		if [[ $top,$parameter == pim_scheduler,PORTS=512 || $top,$parameter == switch,PORTS=144 ]]; then
			map="setattr -mod -set blackbox 1 $top; abc9 -lut 4; setattr -mod -unset blackbox =$top; abc -lut 4 $top"
		fi
	done
	rm -f "$work/flat"
	# As `synth -lut 4`, but for `memory_map`: memories stay memories. They are counted in bits, and are where a path begins
	# or ends. And but for `check`, which does not end in minutes for modules with tens of thousands of ports.
	"$yosys" -q -p "read_verilog -sv ${packages[*]} ${modules[*]}; hierarchy -top $top$set;
		proc; opt_expr; opt_clean; opt -nodffe -nosdff; fsm; opt; wreduce; peepopt; opt_clean; alumacc; share; opt;
		memory -nomap; opt_clean; opt -fast -full; opt -full; techmap; opt -fast; $map; opt -fast;
		write_json $work/netlist.json; $flat" > /dev/null
	read -r luts registers bits levels < <(python3 rtl/levels.py "$work/netlist.json")
	if [[ -f $work/flat ]] && ! grep -q "(length=$levels)" "$work/flat"; then
		echo "$design: levels.py finds $levels levels, yosys: $(grep -o 'length=[0-9]*' "$work/flat")" >&2
		exit 1
	fi
	row="| \`$design\` | $luts | $registers | $bits | $levels"
	row+=" | $((1000000 / (levels * slowest)))-$((1000000 / (levels * fastest))) |"
	printf '%s\n' "$row"
	grep -qFx -- "$row" rtl/README.md || differ=$((differ + 1))
done
if ((differ > 0)); then
	echo "$differ of these rows are not in rtl/README.md" >&2
	exit 1
fi
