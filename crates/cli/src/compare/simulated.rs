//! What the fabrics do to the captured traffic.

use super::measured::Measured;
use super::{Args, failed};
use crate::failure::Failure;
use crate::runs::progress::Steps;
use crate::sim::tables::write_completions;
use crate::sim::work::captured_rows;
use std::time::Instant;
use unrack_rack::{Overrides, Protocol, Scenario, ValidScenario};
use unrack_record::{RunFolder, Spread, trace};
use unrack_sim::summary::Excluded;
use unrack_sim::{FabricConfig, Finished, Setup, Work};
use unrack_units::{Rate, Time};
use unrack_workload::Blades;
use unrack_workload::trace::{Mode, Offsets, ReplaySpec};
use unrack_workload::{Kind, Message};

/// What one simulation is reckoned to take, in native runs of the program.
pub const RECKONED: f64 = 1.0;

/// One fabric's answer.
pub struct Simulation {
    pub fabric: String,
    pub over_ideal: Spread,
    pub fetch_us: Spread,
    pub replay: Option<f64>,
    pub summary: serde_json::Value,
}

/// The rack as a scenario file, for the manifest and for `unrack sim`. A store-and-forward switch takes
/// 400 ns for a layer-2 lookup (EDM table 1); fabrics with a switch of their own bring its latency.
pub fn scenario(fabrics: &[Protocol], nodes: u32, rate: Rate, seed: u64) -> String {
    let first = fabrics.first().map_or("ideal", |protocol| protocol.name());
    format!(
        "# Each fabric of the comparison in turn; this is the first.\n\
         seed = {seed}\n\n\
         [network]\n\
         topology = {{ kind = \"star\", nodes = {nodes} }}\n\
         link = {{ rate = \"{rate}\", propagation = \"10ns\" }}\n\
         switch = {{ latency = \"400ns\" }}\n\n\
         [fabric]\n\
         protocol = \"{first}\"\n\n\
         [workload]\n\
         kind = \"trace\"\n\
         file = \"trace.parquet\"\n\
         replay = \"closed-loop\"\n"
    )
}

pub fn simulate(
    scenario: &str,
    args: &Args,
    measured: &Measured,
    folder: &RunFolder,
    steps: &Steps,
) -> Result<Vec<Simulation>, Failure> {
    let scenario = Scenario::parse("compare.toml", scenario, &Overrides::none())
        .and_then(|scenario| scenario.check())
        .map_err(failed)?;
    let work = captured_work(args, measured, folder)?;
    let run = |protocol: &Protocol| {
        steps.begin(format!("simulating {}", protocol.name()));
        let result = simulate_one(*protocol, &scenario, &work, folder);
        steps.done(RECKONED);
        result
    };
    args.fabric.iter().map(run).collect()
}

/// The captured program on every compute blade, each starting at another point of its run (DDC §4.1).
fn captured_work(args: &Args, measured: &Measured, folder: &RunFolder) -> Result<Work, Failure> {
    let (_, rows) = trace::read(folder.path("trace.parquet"))?;
    let rows = captured_rows(&rows);
    let blades = Blades::half(args.nodes);
    let spec = ReplaySpec { blades, mode: Mode::ClosedLoop, offsets: Offsets::Window, seed: args.seed };
    let (run, native) = (measured.captured.wall_s, measured.native.median_s);
    let times = (Time::from_secs_f64(run), Some(Time::from_secs_f64(native)));
    Work::captured(&rows, times, spec, args.transfers).map_err(failed)
}

fn simulate_one(
    protocol: Protocol,
    scenario: &ValidScenario,
    work: &Work,
    folder: &RunFolder,
) -> Result<Simulation, Failure> {
    let setup = Setup::with_fabric(scenario, FabricConfig::default_of(protocol));
    let started = Instant::now();
    let done = setup.run(work, |_| {}).map_err(failed)?;
    let summary = done.summary(started.elapsed().as_secs_f64(), Excluded::default());
    let name = format!("completions-{}.parquet", protocol.name());
    write_completions(&folder.path(name), &done, &setup.network)?;
    let fetches = fetches(&done);
    let over_ideal = |(message, completion): &(&Message, Time)| {
        completion.as_ps() as f64 / setup.network.ideal(message).as_ps() as f64
    };
    Ok(Simulation {
        fabric: protocol.name().into(),
        over_ideal: spread(fetches.iter().map(over_ideal).collect()),
        fetch_us: spread(fetches.iter().map(|(_, completion)| completion.as_ns_f64() / 1e3).collect()),
        replay: summary.program.map(|program| program.slowdown),
        summary: serde_json::to_value(&summary).map_err(failed)?,
    })
}

/// The fetches that finished, and what each took.
fn fetches(done: &Finished) -> Vec<(&Message, Time)> {
    let all = done.run.messages.iter().zip(&done.run.outcomes);
    all.filter(|(message, _)| message.kind == Kind::Read)
        .filter_map(|(message, outcome)| Some((message, outcome.completion()?)))
        .collect()
}

/// Percentiles by nearest rank.
fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    let Some(max) = values.last().copied() else { return Spread::default() };
    let rank = |p: f64| values[((p * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1];
    Spread {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        p50: rank(0.5),
        p95: rank(0.95),
        p99: rank(0.99),
        p999: rank(0.999),
        max,
        count: values.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let s = spread((1..=100).map(f64::from).collect());
        assert_eq!((s.p50, s.p95, s.p99, s.p999, s.max, s.count), (50.0, 95.0, 99.0, 100.0, 100.0, 100));
        assert_eq!(s.mean, 50.5);
    }

    #[test]
    fn the_scenario_of_a_comparison_is_valid() {
        let text = scenario(&Protocol::ALL, 16, Rate::from_gbps(100), 1);
        Scenario::parse("compare.toml", &text, &Overrides::none()).unwrap().check().unwrap();
    }
}
