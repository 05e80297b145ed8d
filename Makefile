# What can be done here. Each line below is a target; its recipe is in the file of make/ that its heading names.
#
# make/setup.mk
#   setup   installs what the system lacks (Debian packages, a Python environment); does nothing when all is there
#
# make/build.mk
#   build   the `unrack` command and everything that belongs to it, in target/release
#   run     the main job on real programs: a redis session by pages and by lines, a NumPy job by lines, on four fabrics;
#           tables and reports come under runs/
#   install, dist   installs what was built below PREFIX; the same as an archive
#   docs    the documentation site, in target/site: pages that open from a folder, without a server or a network
#   wheel   the Python wheel, in target/wheels
#   clean   removes everything that was built, installed into .venv, or run
#
# make/test.mk
#   check   format, lints and unit tests in under two minutes once built; installs nothing
#   test    lint, all tests, and real programs whose every byte must survive paging: what CI runs
#   lint    rustfmt, clippy, rustdoc, ruff, mypy, pyright, shellcheck and the project's own rules
#   hosts   two virtual machines that share a device: a pool across them, and every way in which either can end
#   models  lock-free code under all interleavings (loom)
#   hooks   runs `make check` before each commit (pre-commit)
#
# make/soak.mk
#   soak    property tests on other cases, the stress for minutes, the programs at full size, a million damaged inputs,
#           thousands of kills of processes that share a pool or a connection, and hundreds of kills of runs
#   differential    thousands of random small networks, here and in the slow reference of tests/reference
#   sockets-suites  tests of Python, redis and curl below `unrack sockets`, beside the same natively: an hour
#   torch   PyTorch in an environment of its own (large), and the tests of its backend beside gloo; `torch-bench` measures
#   miri    lock-free code under Miri, which needs a nightly toolchain with that component
#
# make/studies.mk
#   studies the published figures of the papers beside ours, at full size: docs/results/studies.md
#   studies-programs  DDC's programs, measured on this machine: under an hour; what ran is kept, and not run again
#   bench   cost of a fault beside kernel swap, memory node, a pool's buffers, the simulator's speed, calls beside peers
#
# make/rtl.mk
#   rtl     the hardware: lint, beside the software cycle by cycle, coverage, proofs, faults that these must see
#   synth   the hardware's cells, memory and levels of logic (`fmax`: the clock that it reaches on an FPGA, estimated)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

target := $(or $(CARGO_TARGET_DIR),target)
release := $(target)/release
ci := $(target)/ci
python := .venv/bin/python
# Property tests draw the same cases each time; `make soak` draws others.
export PROPTEST_RNG_SEED ?= 20261122

# $(call say,WHAT): one line on stderr about what a long target does now, with the time since `make` began.
ifndef began
export began := $(shell date +%s)
endif
say = @printf '%3d:%02d  %s\n' $$((($$(date +%s) - $(began)) / 60)) $$((($$(date +%s) - $(began)) % 60)) '$(1)' >&2

include make/setup.mk make/build.mk make/test.mk make/soak.mk make/studies.mk make/rtl.mk
