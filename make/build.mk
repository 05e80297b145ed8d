# Targets for users: the command and its libraries, the main job, the installation, the documentation, and the wheel.
.PHONY: build command run install dist docs wheel clean

build: rust
	$(call say,building everything for release)
	@cargo build -q --release

# The part of the build that the main job needs.
command: rust
	$(call say,building the command and its libraries for release)
	@cargo build -q --release $(addprefix -p unrack-,cli preload lines-plugin)

jobs := --local 25% --fabric ideal,edm,cxl,dctcp

# The results of an earlier run in these two folders are replaced. Both jobs are smaller than the examples' defaults, so that the
# target takes less than seven minutes on two cores, the build included. The redis session is short, so it is measured more often.
run: packages := qemu-user redis-server redis-tools gcc libc6-dev python3 python3-venv
run: rust debian
	$(MAKE) --jobs 2 command .venv/.job-ready
	$(call say,comparing a redis session on four fabrics)
	@REDIS_KEYS=10000 REDIS_REQUESTS=10000 \
		$(release)/unrack compare --access both --repeat 4 $(jobs) --out runs/redis --replace -- examples/redis-session.sh
	$(call say,comparing a NumPy job on four fabrics)
	@$(release)/unrack compare --access lines $(jobs) --out runs/numpy --replace -- $(python) examples/numpy-job.py 16
	@echo "reports: runs/redis/report.html runs/numpy/report.html"

PREFIX ?= /usr/local
version := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
to = $(DESTDIR)$(PREFIX)
rpc_library := libunrack_rpc.so.0
# Folder of the build to install from, and the programs to install.
installed_from ?= $(release)
installed ?= unrack unrack-kv

# The command looks for its libraries in ../lib/unrack, relative to its own folder, so that the installation can be moved.
install: $(if $(filter $(release),$(installed_from)),build)
	install -d $(to)/bin $(to)/lib/unrack $(to)/lib/pkgconfig $(to)/include $(to)/share/doc/unrack $(to)/share/man/man1 \
		$(to)/share/bash-completion/completions $(to)/share/zsh/site-functions $(to)/share/fish/vendor_completions.d
	install -s -m 755 $(addprefix $(installed_from)/,$(installed)) $(to)/bin
	install -s -m 755 $(addprefix $(installed_from)/libunrack_,$(addsuffix .so,preload mptcp sockets lines)) $(to)/lib/unrack
	install -s -m 755 $(installed_from)/libunrack_rpc.so $(to)/lib/$(rpc_library)
	ln -sf $(rpc_library) $(to)/lib/libunrack_rpc.so
	install -m 644 crates/pool/rpc-c/include/unrack_rpc.h crates/pool/socket-preload/include/unrack_sockets.h $(to)/include
	sed 's|@VERSION@|$(version)|' crates/pool/rpc-c/unrack-rpc.pc.in > $(to)/lib/pkgconfig/unrack-rpc.pc
	install -m 644 LICENSES/MIT.txt LICENSES/Apache-2.0.txt README.md CHANGELOG.md $(to)/share/doc/unrack
	if [[ -d $(target)/site ]]; then rm -rf $(to)/share/doc/unrack/site && cp -r $(target)/site $(to)/share/doc/unrack/site; fi
	$(installed_from)/unrack man $(to)/share/man/man1
	$(installed_from)/unrack completions bash > $(to)/share/bash-completion/completions/unrack
	$(installed_from)/unrack completions zsh > $(to)/share/zsh/site-functions/_unrack
	$(installed_from)/unrack completions fish > $(to)/share/fish/vendor_completions.d/unrack.fish

# Archive of the files that `make install` installs. It is reproducible: the same build gives the same bytes.
dist_name := unrack-$(version)-$(shell uname -m)-linux
dist:
	$(call say,packing what is installed)
	rm -rf $(target)/dist && mkdir -p $(target)/dist
	$(MAKE) install DESTDIR=$(abspath $(target))/dist/ PREFIX=$(dist_name)
	tar -C $(target)/dist --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cJf $(target)/$(dist_name).tar.xz $(dist_name)
	@echo $(target)/$(dist_name).tar.xz

# $(call site,FOLDER): builds the documentation site. The command in FOLDER prints the reference pages.
site = UNRACK=$(abspath $(1))/unrack NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build -q --strict -f make/mkdocs.yml -d $(abspath $(target))/site
docs: setup build
	$(call say,building the documentation site)
	@$(call site,$(release))

# zig builds the wheel against glibc 2.28, so that it runs on every distribution with that version or a later one (manylinux_2_28).
# One build makes the command, the libraries and the Python module. The command prints the reference pages of the documentation site
# in the wheel. The wheel does not contain the store (unrack-kv).
wheel_target := $(shell uname -m)-unknown-linux-gnu
wheel_from := $(target)/$(wheel_target)/dist
wheel_data := python/unrack.data
wheel: setup .venv/.wheel-ready
	$(call say,building the command, the libraries and the Python module for the wheel)
	@PATH="$(abspath .venv/bin):$$PATH" cargo zigbuild -q --profile dist --target $(wheel_target).2.28 \
		$(addprefix -p unrack-,cli preload mptcp-preload socket-preload lines-plugin rpc-c)
	$(call say,building the documentation site)
	@$(call site,$(wheel_from))
	@rm -rf $(wheel_data) python/unrack/_native.abi3.so
	@$(MAKE) install installed_from=$(wheel_from) installed=unrack DESTDIR=$(abspath $(wheel_data))/ PREFIX=data
	@mv $(wheel_data)/data/bin $(wheel_data)/scripts
	@echo 'INPUT($(rpc_library))' > $(wheel_data)/data/lib/.link && mv $(wheel_data)/data/lib/.link $(wheel_data)/data/lib/libunrack_rpc.so
	$(call say,packing the wheel)
	@PATH="$(abspath .venv/bin):$$PATH" maturin build -q --zig --target $(wheel_target) --compatibility manylinux_2_28 \
		--compression-level 9 --out $(abspath $(target))/wheels
	@.venv/bin/auditwheel show $(target)/wheels/unrack-$(version)-*.whl

clean:
	cargo clean -q
	rm -rf .venv runs
