//! R2C2 fig. 7: a rack of threads beside the simulator, on the same flows: `cargo bench -p unrack-live --bench simulator`.
//!
//! The paper has a 4x4 torus of 5 Gb/s links and 1,000 flows of 10 MB, one every 1 ms, on 16 servers (§5.1). That is
//! `examples/torus-4x4.toml` in slow motion, for two cores: flows of a tenth of the bytes, links of 100 Mb/s, and a flow
//! every 5 ms, five times the time in all; so links are as loaded, and rates as often computed in the life of a flow.
//! Slower still, threads are less late: how late is part of the result, and what they add to each hop of a packet.
//!
//! Beside quantiles of both, the largest distance between their distributions (Kolmogorov and Smirnov's): 0 is the same.
//! The paper prints curves and no numbers.

use unrack_live::direct::{Emulation, Plan};
use unrack_rack::{Overrides, Scenario};
use unrack_sim::observe::{Peaks, Watch};
use unrack_sim::{FabricConfig, Setup, Work};

const SCENARIO: &str = include_str!("../../../examples/torus-4x4.toml");

/// Megabits a second of a link, and intervals of rates, that are as much slower.
const PACES: [(u64, &str); 3] = [(100, "2.5ms"), (50, "5ms"), (25, "10ms")];
const FLOWS: u32 = 1_000;

/// Of a run: flows' rates in Mb/s, most that waited at each link in KB. Sorted.
struct Curves {
    rates: Vec<f64>,
    queues: Vec<f64>,
}

impl Curves {
    fn new(rates: impl Iterator<Item = f64>, queues: impl Iterator<Item = u64>) -> Curves {
        let mut curves =
            Curves { rates: rates.collect(), queues: queues.map(|bytes| bytes as f64 / 1e3).collect() };
        curves.rates.sort_unstable_by(f64::total_cmp);
        curves.queues.sort_unstable_by(f64::total_cmp);
        curves
    }
}

fn mbps(bytes: u64, took_ps: u64) -> f64 {
    bytes as f64 * 8e6 / took_ps as f64
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn distance(one: &[f64], other: &[f64]) -> f64 {
    let below =
        |sorted: &[f64], x: f64| sorted.partition_point(|value| *value <= x) as f64 / sorted.len() as f64;
    one.iter().chain(other).map(|x| (below(one, *x) - below(other, *x)).abs()).fold(0.0, f64::max)
}

fn row(what: &str, live: &[f64], simulated: &[f64]) {
    let quantiles =
        [0.05, 0.5, 0.95, 1.0].map(|share| format!("{:>6.1} {:>6.1}", at(live, share), at(simulated, share)));
    println!("  {what:<22} {}   {:.3}", quantiles.join("  "), distance(live, simulated));
}

fn main() {
    println!("fig. 7: {FLOWS} flows of 1 MB on a 4x4 torus, spraying; live and simulated");
    PACES.into_iter().for_each(|(mbps, interval)| compare(mbps, interval));
}

fn compare(rate: u64, interval: &str) {
    let sets = [
        format!("network.link.rate={rate}Mbps"),
        format!("fabric.interval={interval}"),
        format!("workload.messages={FLOWS}"),
    ];
    let overrides: Overrides = sets.iter().collect();
    let mut scenario =
        Scenario::parse("torus-4x4", SCENARIO, &overrides).and_then(Scenario::check).expect("it is ours");
    let setup = Setup::from_scenario(&mut scenario).expect("it is ours");
    let work = Work::drawn(&scenario).expect("it is ours").expect("flows are drawn");
    let FabricConfig::R2c2(params) = &setup.fabric else { unreachable!("it is a torus of r2c2") };

    let calls = setup.calls(&work).expect("it is ours").expect("flows do not wait for each other");
    let plan = Plan::new(&scenario.network, &scenario.faults, params, scenario.seed).expect("it is ours");
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let report = Emulation::start(plan, cores).and_then(|mut rack| rack.run(&calls)).expect("threads");
    assert_eq!(report.wrong_bytes, 0, "bytes that nobody sent");
    let both = report.outcomes.iter().zip(&calls);
    let rates = both.filter_map(|(outcome, (_, message))| {
        Some(mbps(message.bytes, outcome.completed_ps? - outcome.submitted_ps))
    });
    let live = Curves::new(rates, report.most_queued.iter().copied());

    let mut watch = Watch { peaks: Some(Peaks::new(&setup.network.topology)), ..Watch::default() };
    let run = setup.watched(&work, &mut watch, |_| {}).expect("it was checked").run;
    let both = run.outcomes.iter().zip(&run.messages);
    let rates =
        both.filter_map(|(outcome, message)| Some(mbps(message.bytes, outcome.completion()?.as_ps())));
    let simulated = Curves::new(rates, watch.peaks.expect("it was put there").queue_bytes());

    let late = |share| report.late_ns.value_at_quantile(share) as f64 / 1e3;
    let again: u64 = report.outcomes.iter().map(|outcome| u64::from(outcome.retransmissions)).sum();
    println!(
        "\nlinks of {rate} Mb/s, rates every {interval}: {:.1} s; threads late by {:.0} us (p50), {:.0} us (p99); \
         {} of {FLOWS} flows complete, {again} packets sent again (simulated: {})",
        report.ended_ps as f64 / 1e12,
        late(0.5),
        late(0.99),
        live.rates.len(),
        run.outcomes.iter().map(|outcome| u64::from(outcome.retransmissions)).sum::<u64>(),
    );
    println!(
        "                           p5 live, sim  p50            p95            most           distance"
    );
    row("rate of a flow, Mb/s", &live.rates, &simulated.rates);
    row("longest queue, KB", &live.queues, &simulated.queues);
}
