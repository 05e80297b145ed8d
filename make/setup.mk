# Requirements of the other targets: Debian packages, a Rust toolchain, Python environments.
.PHONY: setup debian rust hooks

packages := qemu-user valgrind redis-server redis-tools memcached iproute2 sqlite3 xz-utils zstd gcc libc6-dev musl-tools chromium gtkwave \
	fonts-dejavu-core pkgconf python3 python3-venv shellcheck jq tcl \
	qemu-system-x86 linux-image-amd64 busybox-static

setup: rust debian .venv/.test-ready

# The tests boot guests with the kernel of linux-image-amd64 and an initial file system that they build. INITRD=No prevents the
# package from building one for this machine.
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

# rustup's proxies look for toolchains in the user's home. If it has none, use the toolchains in the home that contains the proxies.
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

# $(call into,ENVIRONMENT,GROUP): installs one of the dependency groups of pyproject.toml. Groups need pip 25.1 or later.
define into
	@[[ -x $(1)/bin/python ]] || python3 -m venv $(1)
	@$(1)/bin/python -m pip install -q --disable-pip-version-check 'pip>=25.1'
	@$(1)/bin/python -m pip install -q --disable-pip-version-check --group $(2)
	@touch $@
endef

.venv/.%-ready: pyproject.toml | debian
	@echo "installing the Python packages of the group '$*' of pyproject.toml into .venv"
	$(call into,.venv,$*)

hooks:
	$(call into,.venv,hooks)
	.venv/bin/pre-commit install --config .github/pre-commit.yaml --hook-type pre-commit --hook-type pre-push
