# Reproduction of the papers' figures, and benchmarks that compare with other tools.
.PHONY: studies studies-programs studies-stored studies-check bench

studies: build
	$(call say,running the studies that are simulated or computed)
	@status=0; $(release)/unrack study run all --out runs/studies --replace --store studies/ours.json || status=$$?; \
	mkdir -p docs/results/pictures && cp runs/studies/studies.md docs/results/ && \
	cp -r runs/studies/pictures/studies docs/results/pictures/ && exit $$status

# Stores our values of quick runs, with the bands of three seeds. Later versions must keep them, or store them again.
studies-stored: build
	$(call say,storing the values of quick runs)
	@$(release)/unrack study run all --quick --seeds 3 --out runs/studies-quick --replace --store studies/ours.json

# Breaks mechanisms on purpose; fails if a study has no row that notices.
studies-check: build
	$(call say,breaking the mechanisms that studies are about)
	@$(release)/unrack study check --quick --out runs/studies-check

# Measures real programs with part of their memory remote on this machine, in under an hour.
studies-programs: packages += default-jre-headless
studies-programs: setup build .venv/.studies-ready
	$(call say,measuring the programs of DDC)
	@status=0; $(release)/unrack study run ddc/programs ddc/fig8 ddc/fig9 ddc/table5 \
	--out runs/studies-programs --replace --store studies/ours.json || status=$$?; \
	cp runs/studies-programs/studies.md docs/results/studies-measured.md && \
	cp -r runs/studies-programs/pictures/studies docs/results/pictures/ && exit $$status

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
