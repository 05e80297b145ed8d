//! Speed of the simulator on fixed scenarios, and its cost as they grow:
//! `cargo bench -p unrack-sim [-- --json] [FILTER]`.
//!
//! Prints one line per scenario, or one JSON object each with `--json`. Rates are per second of processor time. For
//! runs that are split, `split` is the speedup of the wall clock over one thread in the same process. Memory is the
//! peak of a process that does nothing else, divided by its messages. Compare figures of one run only.

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use unrack_rack::Wiring;
use unrack_rack::graph::{Graph, Sides};
use unrack_sim::HostModel;
use unrack_sim::network::{Network, Pace};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Setup, Work, known};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{
    Arrivals, Pareto, ParetoScale, Pattern, SizeCdf, SizeDistribution, SyntheticSpec, Traffic,
};

struct BenchScenario {
    fabric: &'static str,
    on: Topology,
    what: &'static str,
    spec: SyntheticSpec,
    threads: u32,
}

impl BenchScenario {
    fn name(&self) -> String {
        let BenchScenario { fabric, what, spec, .. } = self;
        let (nodes, switches) = (self.on.nodes(), self.on.switches());
        let threads = if self.threads > 1 { format!(", {} threads", self.threads) } else { String::new() };
        format!("{fabric} on {nodes} nodes, {switches} switches: {what}, {} messages{threads}", spec.messages)
    }

    fn setup(&self) -> Setup {
        let protocol = known().protocol(self.fabric).expect("a fabric");
        // 36 KiB, as in pFabric's evaluation; but on a star no stream is to lose anything.
        let deep = self.on.is_star() && matches!(self.fabric, "dctcp" | "tcp");
        let buffer = if deep { u64::MAX } else { 36 << 10 };
        let (mtu, buffer) = (Bytes::new(1500), SwitchBuffer::Private(Bytes::new(buffer)));
        Setup {
            network: Network { topology: self.on.clone(), switch_latency: Time::from_ns(250) },
            ethernet: Ethernet { mtu, headers: true, buffer, cut_through: true },
            fabric: FabricConfig::default_of(protocol),
            seed: 1,
            time_limit: Time::MAX,
        }
    }
}

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

fn star(nodes: u32) -> Topology {
    Topology::star(nodes, link(100, 10))
}

/// Creates the network of pFabric's and pHost's evaluations: 144 hosts.
fn leaf_spine() -> Topology {
    Topology::leaf_spine(9, 16, 4, link(10, 200), link(40, 200))
}

/// Creates R2C2's network of 512 nodes (§5.2).
fn torus() -> Topology {
    let sides = Sides::new(&[8, 8, 8]).expect("a cube");
    Topology::direct(Arc::new(Graph::cube(sides, true).expect("a torus")), link(10, 100))
}

fn drack(racks: u32, hosts_per_rack: u32) -> Topology {
    let cores = Wiring::default_cores(racks, hosts_per_rack);
    Topology::drack(Wiring { racks, hosts_per_rack, cores }, link(100, 200), link(100, 200), link(500, 55))
}

/// Returns hosts with DRack's defaults, and CXL ports as fast as those of [`drack`].
fn inside() -> HostModel {
    HostModel { spec: Arc::new(unrack_rack::HostSpec::default()), cxl: link(500, 55) }
}

fn cdf(name: &str) -> SizeDistribution {
    SizeDistribution::Cdf(SizeCdf::built_in(name).expect("is built in"))
}

fn memory(size: SizeDistribution, load: f64, messages: u64) -> SyntheticSpec {
    SyntheticSpec {
        traffic: Traffic::memory(0.5),
        size,
        pattern: Pattern::AllToAll,
        blades: None,
        arrivals: Arrivals::Poisson,
        load,
        messages,
    }
}

fn flows(size: SizeDistribution, load: f64, messages: u64) -> SyntheticSpec {
    SyntheticSpec { traffic: Traffic::Flows, ..memory(size, load, messages) }
}

fn incast(spec: SyntheticSpec) -> SyntheticSpec {
    SyntheticSpec { pattern: Pattern::Incast { fan_in: None }, ..spec }
}

fn scenarios() -> Vec<BenchScenario> {
    let mut all = Vec::new();
    let mut add = |fabrics: &[&'static str], on: Topology, what, spec: SyntheticSpec| {
        all.extend(fabrics.iter().map(|fabric| BenchScenario {
            fabric,
            on: on.clone(),
            what,
            spec: spec.clone(),
            threads: 1,
        }));
    };
    let line = SizeDistribution::Fixed(64);
    add(&["edm", "ideal"], star(144), "64 B, half reads, load 0.8", memory(line.clone(), 0.8, 1_000_000));
    add(
        &["edm"],
        star(144),
        "4 KiB, half reads, load 0.8",
        memory(SizeDistribution::Fixed(4096), 0.8, 250_000),
    );
    add(&["edm"], star(144), "hadoop, half reads, load 0.8", memory(cdf("hadoop"), 0.8, 50_000));
    add(&["cxl"], star(144), "64 B, half reads, load 0.3", memory(line.clone(), 0.3, 1_000_000));
    add(
        &["cxl"],
        star(144),
        "4 KiB, half reads, load 0.2",
        memory(SizeDistribution::Fixed(4096), 0.2, 25_000),
    );
    add(&["dctcp"], star(144), "64 B, half reads, load 0.15", memory(line.clone(), 0.15, 1_000_000));
    let packets = ["tcp", "dctcp", "pfabric", "phost", "homa", "ndp", "ird", "fastpass", "pfc-dcqcn"];
    add(&packets, leaf_spine(), "websearch, load 0.6", flows(cdf("websearch"), 0.6, 2_000));
    add(&packets, leaf_spine(), "imc10, load 0.6", flows(cdf("imc10"), 0.6, 20_000));
    let many = incast(memory(SizeDistribution::Fixed(1024), 0.9, 100_000));
    add(&["edm", "ideal"], star(129), "1 KiB, incast 128:1, load 0.9", many);
    let many = incast(flows(SizeDistribution::Fixed(20_000), 0.8, 20_000));
    add(&["dctcp", "homa", "ndp", "pfc-dcqcn"], star(129), "20 kB, incast 128:1, load 0.8", many);
    let tree = Topology::fat_tree(16, link(10, 200), link(10, 200));
    add(&["tcp", "dctcp", "pfabric", "homa"], tree, "imc10, load 0.6", flows(cdf("imc10"), 0.6, 20_000));
    // Without switches: R2C2 §5.2's network and sizes, with one flow per microsecond: the cost of hops.
    let pareto =
        Pareto::new(1.05, ParetoScale::Mean(Bytes::new(100_000)), 10_000_000).expect("is a distribution");
    let direct = ["r2c2", "pfq", "tcp"];
    add(&direct, torus(), "Pareto, load 0.009", flows(SizeDistribution::Pareto(pareto), 0.009, 10_000));
    // Racks that pool their NICs: DRack's prototype, and a larger one.
    for (racks, hosts) in [(4, 2), (16, 32)] {
        let flows = |load, messages| flows(cdf("websearch"), load, messages);
        add(&["mptcp", "tcp"], drack(racks, hosts), "websearch, load 0.4", flows(0.4, 1_000));
        let inside = drack(racks, hosts).with_hosts(inside());
        add(&["mptcp", "tcp"], inside, "inside hosts too, websearch, load 0.1", flows(0.1, 300));
    }
    // Growing numbers of nodes with the same messages, and growing numbers of messages on the same nodes.
    for nodes in [144, 1_024, 2_048] {
        add(&["edm"], star(nodes), "growing: 64 B, load 0.8", memory(line.clone(), 0.8, 1_000_000));
    }
    for nodes in [144, 1_024, 8_192] {
        add(
            &["dctcp", "homa"],
            star(nodes),
            "growing: 4 KiB, load 0.6",
            flows(SizeDistribution::Fixed(4096), 0.6, 300_000),
        );
    }
    for messages in [100_000, 1_000_000, 10_000_000] {
        add(&["edm"], star(144), "longer: 64 B, load 0.8", memory(line.clone(), 0.8, messages));
    }
    for messages in [100_000, 1_000_000, 3_000_000] {
        add(
            &["homa"],
            star(144),
            "longer: 4 KiB, load 0.6",
            flows(SizeDistribution::Fixed(4096), 0.6, messages),
        );
    }
    // Single runs on two threads.
    let tree = Topology::fat_tree(16, link(100, 200), link(100, 200));
    for fabric in ["tcp", "dctcp", "pfabric", "ndp"] {
        let (spec, on) = (flows(cdf("websearch"), 0.6, 3_000), tree.clone());
        all.push(BenchScenario { fabric, on, what: "websearch, load 0.6", spec, threads: 2 });
    }
    all
}

/// Argument by which this program runs one scenario, in a process of its own.
const ONE: &str = "--one";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [one, name] = arguments.as_slice()
        && one == ONE
    {
        let scenario = scenarios().into_iter().find(|scenario| scenario.name() == *name);
        return println!("{}", measure(&scenario.expect("named by us")));
    }
    let json = arguments.iter().any(|word| word == "--json");
    let filter = arguments.iter().find(|word| !word.starts_with("--"));
    if !json {
        let columns = ["M messages/s", "M hops/s", "M events/s", "cpu s", "B/message", "slowdown", "split"];
        println!("{:76}{}", "", columns.map(|name| format!("{name:>13}")).concat());
    }
    for scenario in scenarios() {
        let name = scenario.name();
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let program = std::env::current_exe().expect("a program knows itself");
        let output = Command::new(program).args([ONE, &name]).output().expect("it runs again");
        match serde_json::from_slice::<Value>(&output.stdout) {
            Ok(figures) if json => println!("{figures}"),
            Ok(figures) => print_line(&name, &figures),
            Err(_) => println!("{name}: failed: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}

fn print_line(name: &str, figures: &Value) {
    let number = |field: &str| figures[field].as_f64().unwrap_or(f64::NAN);
    let millions = ["messages_per_s", "packet_hops_per_s", "events_per_s"].map(|field| number(field) / 1e6);
    println!(
        "{name:76}{:13.3}{:13.2}{:13.2}{:13.2}{:13.0}{:13.3}{}",
        millions[0],
        millions[1],
        millions[2],
        number("cpu_s"),
        number("bytes_per_message"),
        number("mean_slowdown"),
        figures["split"].as_f64().map(|times| format!("{times:13.2}")).unwrap_or_default()
    );
}

fn measure(scenario: &BenchScenario) -> Value {
    let (setup, work) = (scenario.setup(), Work::Synthetic(scenario.spec.clone()));
    let (memory, start) = (peak_bytes(), processor_s());
    let (run, split) = match scenario.threads {
        1 => (setup.run(&work, |_| {}).expect("a valid scenario").run, None),
        threads => {
            let clock = Instant::now();
            let whole = setup.run(&work, |_| {}).expect("a valid scenario");
            let (alone, clock) = (clock.elapsed(), Instant::now());
            let parts = setup.split(&work, threads, |_| {}).expect("it can be split").run;
            assert_eq!(whole.run.counters, parts.counters, "a run that is split is the same run");
            (parts, Some(alone.as_secs_f64() / clock.elapsed().as_secs_f64()))
        }
    };
    let (cpu_s, memory) = (processor_s() - start, peak_bytes() - memory);
    let per_s = |count: u64| (count as f64 / cpu_s).round();
    let slowdowns = (0..run.messages.len()).filter_map(|index| run.slowdown(index));
    json!({
        "scenario": scenario.name(),
        "messages_per_s": per_s(run.finished()),
        "packet_hops_per_s": per_s(run.counters.packet_hops),
        "events_per_s": per_s(run.counters.events),
        "cpu_s": cpu_s,
        "bytes_per_message": memory as f64 / run.messages.len() as f64,
        "split": split,
        "mean_slowdown": slowdowns.sum::<f64>() / run.finished() as f64,
    })
}

fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the peak memory of this process so far, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says how processes are");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("in KiB");
    kib * 1024
}
