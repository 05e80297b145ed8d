#!/usr/bin/env bash
# Breaks list, scheduler and switch on purpose, one fault at a time, and asks who sees it: the proofs of formal.ys, and the
# co-simulation of the scheduler or of a rack. Fails if one that is named beside the fault does not.
# `rtl/mutants.sh YOSYS [PART]`: only those with this in their name or file; more than one may run at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
yosys=$(realpath "$1")
only=${2-}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
# What simulations are called, so that another run has others.
kind=mutant-$$
trap 'rm -rf "$work" "$target/rtl-$kind"-* "$target/rtl-build-$kind"-*' EXIT
survivors=0
declare -A content

# Whether this one is content with the hardware as it is in `$work`.
check() {
	case $1 in
	list) (cd "$work" && "$yosys" -q -p "script rtl/formal.ys list:scheduler") ;;
	scheduler) (cd "$work" && "$yosys" -q -p "script rtl/formal.ys scheduler:") ;;
	grants) simulate srpt-4 hardware_and_software ;;
	rack) simulate rack-4 a_rack_is ;;
	esac > "$work/log" 2>&1
}

simulate() {
	make --no-print-directory rtl_from="$work/rtl" rtl_kind=$kind rtl_flags=-Wno-fatal "rtl-program-$1" || return
	UNRACK_RTL="$target/rtl-$kind" UNRACK_RTL_SCHEDULERS=$1 UNRACK_RTL_CYCLES=5000 \
		timeout 300 cargo test -q --profile ci -p unrack-phy --test cosim "$2"
}

# That this one is with what is not broken: asked once.
is_content() {
	[[ -z ${content[$1]-} ]] || return 0
	rm -rf "$work/rtl" && cp -r rtl "$work/rtl"
	check "$1" || { echo "$1: fails without a fault" >&2; cat "$work/log" >&2; exit 1; }
	content[$1]=1
}

# mutant "what is wrong" FILE "who must see it" FIND REPLACEMENT
mutant() {
	local name=$1 file=$2 find=$4 replacement=$5 seen=() missed=() text
	[[ "$name $file" == *"$only"* ]] || return 0
	for who in $3; do is_content "$who"; done
	rm -rf "$work/rtl" && cp -r rtl "$work/rtl"
	# What holds is proved in two steps; what needs more is as good as not proved.
	sed -i 's/-maxsteps 6/-maxsteps 2/' "$work/rtl/formal.ys"
	text=$(< "$work/rtl/$file")
	[[ ${text/"$find"/} != *"$find"* && $text == *"$find"* ]] \
		|| { echo "$file does not have this once: $find" >&2; exit 1; }
	printf '%s\n' "${text/"$find"/"$replacement"}" > "$work/rtl/$file"
	for who in $3; do
		if check "$who"; then missed+=("$who"); else seen+=("$who"); fi
		# What does not even build is no mutant.
		if grep -Eq '^%Error|syntax error|ERROR: (Module|Identifier|Can)|^make: ' "$work/log"; then
			echo "$name: $(grep -Em1 '^%Error|syntax error|ERROR|^make: ' "$work/log")" >&2
			exit 1
		fi
	done
	printf '| %s | %s | %s |\n' "$name" "${seen[*]-}" "${missed[*]-}"
	survivors=$((survivors + ${#missed[@]}))
}

echo '| fault | seen by | not seen by |'
echo '|---|---|---|'
mutant "a source takes who did not ask it" scheduler_port.sv "scheduler grants" \
	".eligible_i   (asked_by)" ".eligible_i   ({PORTS{|asks_i}})"
mutant "a busy source is asked" scheduler_port.sv "scheduler grants" \
	".eligible_i   (src_free_i & {PORTS{dst_free}})" ".eligible_i   ({PORTS{dst_free}})"
mutant "a busy destination asks" scheduler_port.sv "scheduler grants" \
	".eligible_i   (src_free_i & {PORTS{dst_free}})" ".eligible_i   (src_free_i)"
mutant "a source is not made busy" scheduler_port.sv "scheduler grants" \
	"if (grant_o) src_left_q <= busy_o;
      else if" "if"
mutant "a destination is not made busy" scheduler_port.sv "scheduler grants" \
	"if (dst_granted) dst_left_q <= dst_busy;
      else if" "if"
mutant "a port is free an iteration early" scheduler_port.sv "scheduler grants" \
	"src_left_q < 8'(2 * ITERATION)" "src_left_q < 8'(3 * ITERATION)"
mutant "a grant is not held" scheduler_port.sv "scheduler grants" \
	"hold > 8'd1 ? hold - 8'd1 : 8'd0" "8'd0 & hold"
mutant "a grant is held for its source only" scheduler_port.sv "scheduler grants" \
	"src_left_q > dst_left_i[taken_dst_q] ? src_left_q : dst_left_i[taken_dst_q]" "src_left_q"
mutant "a port is busy from now, not from when its grant goes" scheduler_port.sv "scheduler grants" \
	"grant_hold_o + 8'((grant_size_o + SIZE'(7)) >> 3)" "8'((grant_size_o + SIZE'(7)) >> 3)"
mutant "the last bytes of a chunk take no time" scheduler_port.sv "scheduler grants" \
	"(grant_size_o + SIZE'(7)) >> 3" "grant_size_o >> 3"
mutant "framing takes no time" scheduler_port.sv "scheduler grants" \
	" + 8'(FRAMING);" ";"
mutant "a demand is taken while the lists are written" pim_scheduler.sv "scheduler" \
	"assign ready_o = !settles;" "assign ready_o = 1'b1;"
mutant "a demand of one too many is taken" pim_scheduler.sv "scheduler" \
	" & has_room[src_i]" ""
mutant "what is done stays in its source's list" scheduler_port.sv "scheduler grants" \
	"src_insert = stays_o;" "src_insert = 1'b1;"
mutant "what is not done leaves its destination's list" scheduler_port.sv "scheduler grants" \
	"dst_insert = dst_stays;" "dst_insert = 1'b0;"
mutant "a whole chunk that is the last is not" scheduler_port.sv "scheduler grants" \
	"head_size <= SIZE'(CHUNK)" "head_size < SIZE'(CHUNK)"
mutant "what is granted is not counted down" source_queues.sv "scheduler grants" \
	"if (grant_i && !last_i) entries_q[{dst_i, first}]" "if (1'b0) entries_q[{dst_i, first}]"
mutant "a demand takes the place of the first" source_queues.sv "scheduler grants" \
	"first_q[push_dst_i] + count_q[push_dst_i]" "first_q[push_dst_i]"
mutant "a deleted entry stays" ordered_list.sv "list scheduler grants" \
	"assign gone = from_first(match);" "assign gone = '0;"
mutant "an entry goes in at the front" list_place.sv "list grants" \
	"after_valid_o && after_key_o < insert_key_i" "1'b0"
mutant "not only the first is found" ordered_list.sv "list grants" \
	"first   = seen & ~(seen << 1);" "first   = eligible & ~(eligible >> 1);"
mutant "what is selected is not in the tree" one_hot_mux.sv "scheduler grants" "step *= 2" "step *= 4"
mutant "who is not eligible is found" list_place.sv "scheduler grants" \
	"valid_o && eligible_i[name_o]" "valid_o && eligible_i != '0"
# What no property speaks of: which goes first.
mutant "order before size" scheduler_port.sv "grants" "KEY'({size, order})" "KEY'({order, size})"
mutant "a message that is half granted has its first size" scheduler_port.sv "grants" \
	": key_of(left, order);" ": key_of(head_size, order);"
mutant "a grant is called the first of its message again" source_queues.sv "grants" \
	"started_q[dst_i] <= !last_i;" ""
mutant "a grant has another tag than its demand" source_queues.sv "grants" \
	"push_order_i, push_tag_i}" "push_order_i, ~push_tag_i}"
# The switch.
mutant "a circuit is not used up" edm/switch_port.sv "rack" "assign circuit_take = starts && size == left;" "assign circuit_take = 1'b0;"
mutant "what breaks off is not ended" edm/switch_port.sv "rack" "assign forwards     = abandons || starts" "assign forwards     = starts"
mutant "two ports' messages are mixed" edm/switch_port.sv "rack" "locked_q <= edm_pkg::opens_message(data[9:0], locked_q);" "locked_q <= 1'b0;"
mutant "a check that fails is not seen" edm/message_parser.sv "rack" "assign holds   = check == '0;" "assign holds   = 1'b1 || check != '0;"
mutant "an old grant is taken for a new message" edm/host.sv "rack" "&& own_is_write_q[at][id[1:0]] && own_uses_q[at][id[1:0]] == id[7:2];" "&& own_is_write_q[at][id[1:0]];"
mutant "an old grant is taken for a new answer" edm/host.sv "rack" "&& answer_uses_q[at][id[1:0]] == id[7:2];" ";"
mutant "fetch-and-add forgets the carry" edm/modify_unit.sv "rack" "read_data_i + first" "read_data_i ^ first"
mutant "compare-and-swap does not compare" edm/modify_unit.sv "rack" "word = read_data_i == first ? second : read_data_i" "word = second"
mutant "a timer runs for a write too" edm/host.sv "rack" "own_used_q[n][p] && !own_is_write_q[n][p] && deadline" "own_used_q[n][p] && deadline"
exit $((survivors > 0))
