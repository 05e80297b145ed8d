# Targets of this project, one per line below. The recipe of a target is in the file of make/ under whose name the target stands.
#
# make/setup.mk
#   setup   installs missing Debian packages and a Python environment; does nothing if they are installed
#
# make/build.mk
#   build   the `unrack` command and everything that belongs to it, in target/release
#   run     the main job on real programs: a redis session by pages and by lines, a NumPy job by lines, on four fabrics;
#           tables and reports come under runs/
#   install, dist   installs the build below PREFIX; packs the same files into an archive
#   docs    the documentation site, in target/site; a browser opens its pages as files, without a server or a network
#   wheel   the Python wheel, in target/wheels
#   clean   removes all builds, the Python environment in .venv, and the results in runs/
#
# make/test.mk
#   check   format, lints and unit tests; takes under two minutes after the first build, and installs no packages
#   test    lint, all tests, and real programs whose data must survive paging byte for byte; CI runs this target
#   lint    rustfmt, clippy, rustdoc, ruff, mypy, pyright, shellcheck and the project's own rules
#   hosts   a pool across two virtual machines that share a memory device, with all the ways in which either machine can end
#   models  model checks of lock-free code under all interleavings (loom)
#   hooks   installs git hooks that run `make check` before each commit (pre-commit)
#
# make/soak.mk
#   soak    property tests on newly drawn cases, the stress test for minutes, the programs at full size, a million damaged
#           inputs, thousands of kills of processes that share a pool or a connection, and hundreds of kills of runs
#           and of memory nodes
#   soak-nodes  only the kills of memory nodes
#   differential    compares this simulator with the slow reference of tests/reference, on thousands of random small networks
#   sockets-suites  runs the test suites of Python, redis and curl natively and below `unrack sockets`: an hour
#   torch   installs PyTorch (large) into a separate environment, and tests its backend against gloo; `torch-bench` measures
#           the backend
#   miri    lock-free code under Miri, which needs a nightly toolchain with that component
#
# make/studies.mk
#   studies reproduces the published figures of the papers at full size, and writes docs/results/studies.md
#   studies-programs  measures DDC's programs on this machine: under an hour; finished runs are kept and not repeated
#   bench   benchmarks: faults compared with kernel swap, the memory node, a pool's buffers, the simulator, and calls compared
#           with other libraries
#
# make/rtl.mk
#   rtl     checks the hardware: lint, co-simulation with the software cycle by cycle, coverage, proofs, and injected faults
#           that these checks must detect
#   synth   reports the hardware's cells, memory and levels of logic (`fmax`: its estimated clock rate on an FPGA)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

target := $(or $(CARGO_TARGET_DIR),target)
release := $(target)/release
ci := $(target)/ci
python := .venv/bin/python
# Seed of the property tests, fixed so that each run draws the same cases; `make soak` uses other seeds.
export PROPTEST_RNG_SEED ?= 20261122

# $(call say,TEXT): prints a progress line of a long target on stderr, with the time since `make` began.
ifndef began
export began := $(shell date +%s)
endif
say = @printf '%3d:%02d  %s\n' $$((($$(date +%s) - $(began)) / 60)) $$((($$(date +%s) - $(began)) % 60)) '$(1)' >&2

include make/setup.mk make/build.mk make/test.mk make/soak.mk make/studies.mk make/rtl.mk
