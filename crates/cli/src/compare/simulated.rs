//! What the fabrics do to the captured traffic.

use super::measured::Measured;
use super::{Args, failed, progress::Steps};
use crate::failure::Failure;
use std::time::Instant;
use unrack_rack::{Overrides, Protocol, Scenario, ValidScenario};
use unrack_record::completions::{self, Kind};
use unrack_record::{RunFolder, Spread, trace};
use unrack_sim::summary::Excluded;
use unrack_sim::{FabricConfig, Finished, Setup, Work};
use unrack_units::{Rate, Time};
use unrack_workload::trace::{Blades, Mode, Offsets, ReplaySpec, Row};

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
        steps.done();
        result
    };
    args.fabric.iter().map(run).collect()
}

/// The captured program on every compute blade, each starting at another point of its run (DDC §4.1).
fn captured_work(args: &Args, measured: &Measured, folder: &RunFolder) -> Result<Work, Failure> {
    let (_, rows) = trace::read(folder.path("trace.parquet"))?;
    let rows: Vec<Row> = rows.iter().map(row).collect();
    let blades = Blades { compute: args.nodes / 2, memory: args.nodes - args.nodes / 2 };
    let spec = ReplaySpec { blades, mode: Mode::ClosedLoop, offsets: Offsets::Window, seed: args.seed };
    Work::captured(&rows, Time::from_secs_f64(measured.captured.wall_s), spec, args.transfers).map_err(failed)
}

fn row(row: &trace::Row) -> Row {
    Row {
        t_ns: row.t_ns,
        thread: row.thread,
        page: row.page,
        write_back: row.kind == Kind::WriteBack,
        bytes: row.bytes,
        wait_ns: row.wait_ns,
        overhead_ns: row.overhead_ns,
    }
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
    let rows = fetches_and_write_backs(&done);
    write_completions(&rows, protocol, setup.star.rate, folder)?;
    let fetches: Vec<_> = rows.iter().filter(|row| row.kind == Kind::Fetch).collect();
    let over_ideal = |row: &&completions::Row| row.completion_ps as f64 / row.ideal_ps.max(1) as f64;
    Ok(Simulation {
        fabric: protocol.name().into(),
        over_ideal: spread(fetches.iter().map(over_ideal).collect()),
        fetch_us: spread(fetches.iter().map(|row| row.completion_ps as f64 / 1e6).collect()),
        replay: summary.program.map(|program| program.slowdown),
        summary: serde_json::to_value(&summary).map_err(failed)?,
    })
}

fn fetches_and_write_backs(done: &Finished) -> Vec<completions::Row> {
    let run = &done.run;
    let finished =
        run.outcomes.iter().enumerate().filter_map(|(n, outcome)| Some((n, outcome.completion()?)));
    let row = |(n, completion): (usize, Time)| completions::Row {
        kind: match run.messages[n].kind {
            unrack_workload::Kind::Read => Kind::Fetch,
            _ => Kind::WriteBack,
        },
        bytes: run.messages[n].bytes as u32,
        completion_ps: completion.as_ps(),
        ideal_ps: run.ideal[n].as_ps(),
    };
    finished.map(row).collect()
}

fn write_completions(
    rows: &[completions::Row],
    protocol: Protocol,
    rate: Rate,
    folder: &RunFolder,
) -> Result<(), Failure> {
    let name = format!("completions-{}.parquet", protocol.name());
    let mut writer = completions::Writer::create(folder.path(name))?;
    for row in rows {
        writer.push(*row)?;
    }
    let meta = completions::Meta { fabric: protocol.name().into(), link_rate_bps: rate.as_bps() };
    Ok(writer.finish(&meta)?)
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
