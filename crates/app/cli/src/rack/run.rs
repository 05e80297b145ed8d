//! `unrack rack run`: sends a scenario's flows through a rack that is up, and reports the same figures as a simulation.

use super::direct::{self, Loaded};
use super::options::StateFolder;
use crate::completions;
use crate::failure::{CommandFailure, say};
use crate::folder;
use crate::sim::words;
use crate::stdout;
use clap_complete::engine::ArgValueCompleter;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use unrack_build::build;
use unrack_grid::{tables, work};
use unrack_rack::ValidScenario;
use unrack_record::{Machine, RunFolder, StartedCommand};
use unrack_sim::engine::{BusyTimes, Counters};
use unrack_sim::fabric::r2c2::R2c2;
use unrack_sim::run::Ending;
use unrack_sim::scenario::excluded;
use unrack_sim::{Fabric, Finished, Outcome, Registered, Run, Setup, Summary};
use unrack_torus::{LiveOutcome, LiveReport, SLACK};
use unrack_units::Time;
use unrack_workload::Message;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The scenario file; its network and fabric are those of the rack that is up
    scenario: PathBuf,
    /// Replace a value of the file, such as workload.load=10%
    #[arg(long, value_name = "KEY=VALUE", add = ArgValueCompleter::new(completions::settings))]
    set: Vec<String>,
    /// Write summary and messages to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the run in that folder even if it is of another scenario
    #[arg(long, requires = "out")]
    replace: bool,
    /// Print one JSON object: that of `unrack sim`, and `live`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: StateFolder,
}

/// Figures that only a live rack has.
#[derive(Serialize)]
struct Live {
    /// Time that packets waited for a thread after they were due, in ns. It is the delay that the emulation adds to each hop.
    late_ns: Late,
    /// Maximum number of bytes that a data packet found queued ahead of it, by link.
    most_queued_bytes: Vec<u64>,
    /// Maximum number of packets of one flow that waited in the flow's re-order buffer.
    most_waiting: u64,
    /// Bytes that arrived different from those sent.
    wrong_bytes: u64,
    malformed: u64,
    lost_broadcasts: u64,
}

#[derive(Serialize)]
struct Late {
    mean: f64,
    p50: u64,
    p99: u64,
    max: u64,
}

#[derive(Serialize)]
struct LiveFigures {
    #[serde(flatten)]
    summary: Summary,
    live: Live,
    machine: Machine,
}

/// Runs `unrack rack run`.
pub(super) fn main(args: &Args) -> Result<ExitCode, CommandFailure> {
    let started = StartedCommand::now(build());
    let Loaded { scenario, setup, params, fabric, .. } = direct::load(&args.scenario, &args.set)?;
    let folder = args.place.folder();
    let rack_state = direct::find(&folder)?;
    let up = direct::load(&rack_state.scenario(), &[])?;
    let is = |of: &ValidScenario| (of.network.clone(), of.faults.clone());
    if (is(&up.scenario), &up.params) != (is(&scenario), &params) {
        return Err(CommandFailure::Usage(format!(
            "the rack in {} has another network, fabric or failures than this scenario: take it down, and bring this \
             one up",
            folder.display()
        )));
    }
    let (work, _) = work::checked(&scenario, &setup, work::MOST_TRANSFERS)?;
    let calls = setup.calls(&work).map_err(|why| why.in_scenario(&scenario))?.ok_or_else(|| {
        let why = "has messages that do not wait for others on a live rack: flows, or a list of them";
        CommandFailure::from(scenario.error_at("workload", why))
    })?;
    let (all, own) = (calls.len(), rack_state.sources()?);
    let calls: Vec<_> = calls.into_iter().filter(|(_, message)| own.contains(&message.src)).collect();
    if calls.len() < all {
        say(&format!("{} of {all} messages are sent by this machine's nodes, {own:?}", calls.len()));
    }
    let out = args.folder(&scenario)?;
    let clock = Instant::now();
    let report = rack_state.run(&calls)?;
    let wall_s = clock.elapsed().as_secs_f64();
    let live = Live::from_report(&report);
    let wrong = report.wrong_bytes;
    let done = finished(&setup, &fabric, calls, report);
    let summary = done.summary(excluded(&scenario, &done.run));
    let figures = LiveFigures { summary, live, machine: Machine { wall_s, ..started.machine() } };
    if let Some(out) = &out {
        args.save(out, (&scenario, &setup), &done, &figures, &started)?;
    }
    args.tell(&figures)?;
    match wrong {
        0 => Ok(ExitCode::SUCCESS),
        wrong => Err(CommandFailure::Failed(format!(
            "{wrong} bytes arrived different from those sent: a bug of unrack, \
        please report it"
        ))),
    }
}

/// Converts the results of the run to the form of a simulation's results.
fn finished(setup: &Setup, fabric: &R2c2, calls: Vec<(Time, Message)>, report: LiveReport) -> Finished {
    let messages: Vec<Message> = calls.into_iter().map(|(_, message)| message).collect();
    let outcome = |outcome: &LiveOutcome| {
        let completed = outcome.completed_ps.map(Time::from_ps);
        Outcome::measured(Time::from_ps(outcome.submitted_ps), completed, outcome.retransmissions)
    };
    let counted = report.counters;
    let run = Run {
        outcomes: report.outcomes.iter().map(outcome).collect(),
        unloaded: messages.iter().map(|message| fabric.unloaded(message)).collect(),
        messages,
        counters: Counters {
            events: counted.events,
            packet_hops: counted.packet_hops,
            sent_bytes: counted.sent_bytes,
            arrived_bytes: counted.arrived_bytes,
            dropped_bytes: counted.dropped_bytes,
            dropped_packets: counted.dropped_packets,
            ..Counters::default()
        },
        // A live rack does not measure the busy times of its links.
        busy: BusyTimes::default(),
        hosts: None,
        queue_bytes: report.queue_bytes,
        ended: Time::from_ps(report.ended_ps),
        ending: Ending::Done,
    };
    Finished {
        run,
        fabric: R2c2::PROTOCOL.name(),
        nodes: setup.network.nodes(),
        seed: setup.seed,
        program: None,
        jobs: Default::default(),
    }
}

impl Live {
    fn from_report(report: &LiveReport) -> Live {
        let late: &Histogram<u64> = &report.late_ns;
        Live {
            late_ns: Late {
                mean: late.mean(),
                p50: late.value_at_quantile(0.5),
                p99: late.value_at_quantile(0.99),
                max: late.max(),
            },
            most_queued_bytes: report.most_queued.clone(),
            most_waiting: report.counters.most_waiting,
            wrong_bytes: report.wrong_bytes,
            malformed: report.counters.malformed,
            lost_broadcasts: report.counters.lost_broadcasts,
        }
    }
}

impl Args {
    fn folder(&self, scenario: &ValidScenario) -> Result<Option<RunFolder>, CommandFailure> {
        let Some(out) = &self.out else { return Ok(None) };
        let purpose = folder::of_scenario("rack run", &self.scenario, &self.set, scenario)?;
        folder::create(out, &purpose, self.replace).map(Some)
    }

    /// Saves the run. The manifest is written last, because it marks the run as complete.
    fn save(
        &self,
        out: &RunFolder,
        (scenario, setup): (&ValidScenario, &Setup),
        done: &Finished,
        figures: &LiveFigures,
        started: &StartedCommand,
    ) -> Result<(), CommandFailure> {
        let text = scenario.explain();
        tables::write_tables(out, done, &setup.network)?;
        out.write_json("summary.json", figures)?;
        unrack_record::atomic_write(out.path("scenario.toml"), text.as_bytes())?;
        let settings = serde_json::json!({
            "scenario": self.scenario.display().to_string(),
            "scenario_hash": scenario.hash(),
            "set": self.set,
            "live": true,
        });
        Ok(out.write_json("manifest.json", &started.manifest(scenario.seed, Some(text), settings))?)
    }

    fn tell(&self, figures: &LiveFigures) -> Result<(), CommandFailure> {
        let LiveFigures { summary, live, .. } = figures;
        let name = self.scenario.file_stem().unwrap_or_default().to_string_lossy();
        let text = match self.json {
            true => serde_json::to_string(figures).map(|text| text + "\n"),
            false => words::figures(&name, summary).map(|table| table + &live.words(summary)),
        };
        stdout::print(&text.map_err(|why| CommandFailure::Failed(why.to_string()))?)?;
        words::unfinished(summary).iter().for_each(|text| say(text));
        if Time::from_ns(live.late_ns.p99) > SLACK {
            say("this machine was too busy: threads woke later than flows can make up for (see late_ns)");
        }
        self.out.iter().for_each(|path| say(&format!("wrote {}", path.display())));
        Ok(())
    }
}

impl Live {
    fn words(&self, summary: &Summary) -> String {
        let us = |ns: u64| ns as f64 / 1e3;
        format!(
            "live       {:.1} ms: {} packet-hops, {:.0} us late at p50, {:.0} us at p99; at most {} packets of a flow \
             waited for their turn\n",
            summary.sim_time_ns / 1e6,
            summary.packet_hops,
            us(self.late_ns.p50),
            us(self.late_ns.p99),
            self.most_waiting
        )
    }
}
