//! How fast the simulator is on fixed scenarios: `cargo bench -p unrack-sim [-- --json] [FILTER]`.
//!
//! One line per scenario, or one JSON object each with `--json`. Rates are per second of processor
//! time, one core. Compare figures of one run only.

use rustix::time::{ClockId, clock_gettime};
use unrack_protocol::{cxl, dctcp};
use unrack_sim::fabric::cxl::Cxl;
use unrack_sim::fabric::dctcp::Dctcp;
use unrack_sim::fabric::edm::{Edm, EdmConfig};
use unrack_sim::fabric::ideal::Ideal;
use unrack_sim::fabric::stream::Ethernet;
use unrack_sim::network::{Network, Star};
use unrack_sim::{Fabric, Run, Sim};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Arrivals, Cdf, Pattern, Size, Synthetic, SyntheticSpec, Traffic};

const MESSAGES: u64 = 1_000_000;

const STAR_144: Star = Star {
    nodes: 144,
    rate: Rate::from_gbps(100),
    propagation: Time::from_ns(10),
    switch_latency: Time::ZERO,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let json = arguments.iter().any(|word| word == "--json");
    let filter = arguments.iter().find(|word| !word.starts_with("--"));
    let bench = Bench { json, filter: filter.cloned() };
    bench.both(144, "64 B, half reads, load 0.8", MESSAGES, memory(Size::Fixed(64), 0.8));
    bench.both(144, "4 KiB, half reads, load 0.8", MESSAGES / 4, memory(Size::Fixed(4096), 0.8));
    let hadoop = Size::Cdf(Cdf::built_in("hadoop").expect("is built in"));
    bench.both(144, "hadoop, half reads, load 0.8", MESSAGES / 20, memory(hadoop, 0.8));
    bench.both(512, "64 B, half reads, load 0.8", MESSAGES, memory(Size::Fixed(64), 0.8));
    let incast = SyntheticSpec { pattern: Pattern::Incast, ..memory(Size::Fixed(1024), 0.9) };
    bench.both(129, "1 KiB, incast 128:1, load 0.9", MESSAGES / 10, incast);
    // Loads that these two carry: headers take their part of the links.
    let flows = SyntheticSpec { traffic: Traffic::memory(0.0), ..memory(Size::Fixed(65_536), 0.6) };
    bench.dctcp("64 KiB, writes, load 0.6", MESSAGES / 10, flows);
    bench.dctcp("4 KiB, half reads, load 0.6", MESSAGES / 4, memory(Size::Fixed(4096), 0.6));
    bench.dctcp("64 B, half reads, load 0.15", MESSAGES, memory(Size::Fixed(64), 0.15));
    bench.cxl("4 KiB, half reads, load 0.2", MESSAGES / 40, memory(Size::Fixed(4096), 0.2));
    bench.cxl("64 B, half reads, load 0.3", MESSAGES, memory(Size::Fixed(64), 0.3));
}

fn memory(size: Size, load: f64) -> SyntheticSpec {
    SyntheticSpec {
        traffic: Traffic::memory(0.5),
        size,
        pattern: Pattern::AllToAll,
        blades: None,
        arrivals: Arrivals::Poisson,
        load,
        messages: 0,
    }
}

fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

struct Bench {
    json: bool,
    filter: Option<String>,
}

impl Bench {
    fn both(&self, nodes: u32, what: &str, messages: u64, spec: SyntheticSpec) {
        let star = Star { nodes, ..STAR_144 };
        let spec = SyntheticSpec { messages, ..spec };
        let edm = Edm::new(&star, &EdmConfig::default()).expect("the defaults are valid");
        self.one(&star, what, spec.clone(), edm);
        self.one(&star, what, spec, Ideal::new(&Network::star(&star)));
    }

    fn dctcp(&self, what: &str, messages: u64, spec: SyntheticSpec) {
        let ethernet = Ethernet {
            mtu: Bytes::new(1500),
            headers: true,
            buffer: Bytes::new(u64::MAX),
            cut_through: true,
        };
        let fabric = Dctcp::new(&Network::star(&STAR_144), &ethernet, &dctcp::Params::default());
        let spec = SyntheticSpec { messages, ..spec };
        self.one(&STAR_144, what, spec, fabric.expect("the defaults are valid"));
    }

    fn cxl(&self, what: &str, messages: u64, spec: SyntheticSpec) {
        let fabric =
            Cxl::new(&Network::star(&STAR_144), &cxl::Params::default()).expect("the defaults are valid");
        self.one(&STAR_144, what, SyntheticSpec { messages, ..spec }, fabric);
    }

    fn one<F: Fabric>(&self, star: &Star, what: &str, spec: SyntheticSpec, fabric: F) {
        let name = format!("{} on star {}: {what}", fabric.name(), star.nodes);
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return;
        }
        let source = Synthetic::new(spec, star.nodes, star.rate, 1).expect("a valid workload");
        let start = processor_s();
        let (run, ..) = Sim::new(fabric, source).run();
        self.print(&name, &run, processor_s() - start);
    }

    fn print(&self, name: &str, run: &Run, cpu_s: f64) {
        let per_s = |count: u64| count as f64 / cpu_s;
        let messages = per_s(run.finished());
        let (hops, events) = (per_s(run.counters.packet_hops), per_s(run.counters.events));
        let slowdowns = (0..run.messages.len()).filter_map(|index| run.slowdown(index));
        let slowdown = slowdowns.sum::<f64>() / run.finished() as f64;
        if self.json {
            println!(
                "{{\"scenario\":\"{name}\",\"messages_per_s\":{messages:.0},\"packet_hops_per_s\":{hops:.0},\
                 \"events_per_s\":{events:.0},\"cpu_s\":{cpu_s:.3},\"mean_slowdown\":{slowdown:.4}}}"
            );
        } else {
            println!(
                "{name:60} {:6.2} M messages/s {:6.2} M hops/s {:6.2} M events/s {cpu_s:6.2} s, mean slowdown {slowdown:.3}",
                messages / 1e6,
                hops / 1e6,
                events / 1e6,
            );
        }
    }
}
