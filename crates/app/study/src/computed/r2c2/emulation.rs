//! R2C2 fig. 7: an emulated rack on this machine, compared with the simulator on the same flows.
//!
//! The paper emulates a 4x4 torus with 5 Gb/s links on 16 servers, with 1,000 flows of 10 MB and one new flow every 1 ms
//! (§5.1). This study uses `examples/torus-4x4.toml`, which is slowed down for two cores: flows have a tenth of the bytes,
//! links have 100 Mb/s, and a new flow starts every 5 ms, so that the run takes five times as long. Therefore the load of
//! the links is the same, and rates are computed as often during the life of a flow. At even lower link rates, the
//! delays of threads matter less.

use crate::file::StudyScale;
use unrack_rack::{Overrides, Scenario};
use unrack_sim::fabric::r2c2::R2c2;
use unrack_sim::observe::{Peaks, Views};
use unrack_sim::{Setup, Work};
use unrack_torus::{Emulation, TorusPlan};

const SCENARIO: &str = include_str!("../../../../../../examples/torus-4x4.toml");

/// Rates of a link in Mb/s, each with the interval between computations of rates, which is inversely proportional to it.
const PACES: [(u64, &str); 3] = [(100, "2.5ms"), (50, "5ms"), (25, "10ms")];

/// Results of a run: the rates of flows, and the maximum of queued bytes at each link. Both lists are sorted.
struct Curves {
    rates: Vec<f64>,
    queues: Vec<f64>,
}

impl Curves {
    fn new(rates: impl Iterator<Item = f64>, queues: impl Iterator<Item = u64>) -> Curves {
        let mut curves =
            Curves { rates: rates.collect(), queues: queues.map(|bytes| bytes as f64).collect() };
        curves.rates.sort_unstable_by(f64::total_cmp);
        curves.queues.sort_unstable_by(f64::total_cmp);
        curves
    }
}

fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Returns the ratios of live to simulated percentiles of rates and queues, by the Mb/s of a link. A link rate whose emulation fails,
/// for example because threads cannot be created, is left out.
pub(super) fn ratios(scale: StudyScale) -> Vec<(String, f64)> {
    let flows = match scale {
        StudyScale::Full => 1_000,
        StudyScale::Quick => 60,
    };
    PACES.iter().filter_map(|(mbps, interval)| compare(*mbps, interval, flows)).flatten().collect()
}

fn compare(mbps: u64, interval: &str, flows: u32) -> Option<Vec<(String, f64)>> {
    let sets = [
        format!("network.link.rate={mbps}Mbps"),
        format!("fabric.interval={interval}"),
        format!("workload.messages={flows}"),
    ];
    let overrides: Overrides = sets.iter().collect();
    let mut scenario =
        Scenario::parse("torus-4x4", SCENARIO, &overrides).and_then(unrack_sim::check).expect("it is ours");
    let setup = Setup::from_scenario(&mut scenario).expect("it is ours");
    let work = Work::drawn(&scenario).expect("it is ours").expect("flows are drawn");
    let params = setup.fabric.params::<R2c2>().expect("it is a torus of r2c2");

    let calls = setup.calls(&work).expect("it is ours").expect("flows do not wait for each other");
    let plan =
        TorusPlan::new(&scenario.network, &scenario.faults, params, scenario.seed).expect("it is ours");
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let report = Emulation::start(plan, cores).and_then(|mut rack| rack.run(&calls)).ok()?;
    assert_eq!(report.wrong_bytes, 0, "bytes that nobody sent");
    let both = report.outcomes.iter().zip(&calls);
    let rates = both.filter_map(|(outcome, (_, message))| {
        Some(message.bytes as f64 / (outcome.completed_ps? - outcome.submitted_ps) as f64)
    });
    let live = Curves::new(rates, report.most_queued.iter().copied());

    let mut watch = Views { peaks: Some(Peaks::new(&setup.network.topology)), ..Views::default() };
    let run = setup.watched(&work, &mut watch, |_| {}).expect("it was checked").run;
    let both = run.outcomes.iter().zip(&run.messages);
    let rates = both
        .filter_map(|(outcome, message)| Some(message.bytes as f64 / outcome.completion()?.as_ps() as f64));
    let simulated = Curves::new(rates, watch.peaks.expect("it was put there").queue_bytes());

    let over = |live: &[f64], simulated: &[f64], share| at(live, share) / at(simulated, share);
    let mut values = Vec::new();
    for (name, share) in [("p5", 0.05), ("p50", 0.5), ("p95", 0.95)] {
        values.push((format!("{mbps}.rates.{name}"), over(&live.rates, &simulated.rates, share)));
        values.push((format!("{mbps}.queues.{name}"), over(&live.queues, &simulated.queues, share)));
    }
    Some(values)
}
