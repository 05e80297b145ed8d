# Tests that take minutes to hours, and tests with requirements that most machines do not meet.
.PHONY: soak soak-nodes differential sockets-suites torch torch-bench miri

differential_cases ?= 3000

differential: rust
	UNRACK_DIFFERENTIAL_CASES=$(differential_cases) UNRACK_DIFFERENTIAL_SEED=$$RANDOM \
		cargo test -q --profile ci -p unrack-sim --test differential

soak_seconds ?= 240
soak_kills ?= 5000
soak_run_kills ?= 300
soak_node_kills ?= 100
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
	UNRACK_COPY_PAGES=1 $(release)/unrack run --local 25% -- \
		$(release)/unrack-stress --seed $$RANDOM --threads 3 --seconds $(soak_seconds)
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
	cargo test -q --workspace --profile ci --test it -- --test-threads 1 --ignored swap:: fast_books:: agent:: ahead:: compare:: guests:: lines:: pid:: placeholder::
	UNRACK_COPY_PAGES=1 cargo test -q --profile ci -p unrack-cli --test it -- run:: agent:: ahead:: limits:: memory:: parent:: remote:: watch::
	UNRACK_RUN_KILLS=$(soak_run_kills) UNRACK_RUN_KILLS_SEED=$$RANDOM \
		cargo test -q --profile ci -p unrack-cli --test it random_kills
	$(MAKE) soak-nodes
	$(MAKE) studies-check

# Kills and stops memory nodes of mirrored runs at random times, while the programs check every byte.
soak-nodes: rust
	cargo build -q --profile ci -p unrack-preload
	UNRACK_NODE_KILLS=$(soak_node_kills) UNRACK_NODE_KILLS_SEED=$$RANDOM \
		cargo test -q --profile ci -p unrack-cli --test it -- --exact several::random_deaths_of_nodes_lose_nothing

# Test suites of well-known programs. Requirements that no package of the distribution provides are built once and kept.
sockets-suites: packages := gcc libc6-dev make perl python3 tcl redis-server redis-tools libssl-dev stunnel4
sockets-suites: rust debian
	cargo build -q --release -p unrack-cli -p unrack-socket-preload
	UNRACK=$(release)/unrack UNRACK_SUITES=$(abspath $(target))/sockets-suites tests/sockets/run.sh

# PyTorch is optional and not part of `test`. If it cannot be installed, its tests report that and are skipped.
torch_python := .venv-torch/bin/python
.venv-torch/.ready: pyproject.toml | debian
	@echo "installing PyTorch into .venv-torch"
	@[[ -x $(torch_python) ]] || python3 -m venv .venv-torch
	@$(torch_python) -m pip install -q --disable-pip-version-check 'pip>=25.1'
	@if $(torch_python) -m pip install -q --disable-pip-version-check --group torch; then touch $@; else \
		echo "make: PyTorch cannot be installed here; its tests are skipped" >&2; \
		$(torch_python) -m pip install -q --disable-pip-version-check --group job; fi

torch: rust .venv-torch/.ready
	cargo build -q --profile ci --workspace --lib --bins --tests
	$(with_python) $(torch_python) -m unittest discover -q -s python/tests/extras

torch-bench: build .venv-torch/.ready
	UNRACK=$(release)/unrack UNRACK_RPC_LIBRARY=$(abspath $(release))/libunrack_rpc.so PYTHONPATH=python \
		$(torch_python) -W ignore bench/torch_tensors.py

miri: rust
	PROPTEST_CASES=2 MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" CARGO_TARGET_DIR=$(target)/miri \
		cargo +nightly miri test -q -p unrack-pool --lib -- arena::list arena::section
	PROPTEST_CASES=2 MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" CARGO_TARGET_DIR=$(target)/miri \
		cargo +nightly miri test -q -p unrack-rpc --lib -- ends:: view:: greeting:: tcp::session_tests
