//! A run of one fabric: it simulates the messages of some work on a network, and returns the results.

use crate::site::{Ethernet, FabricSite};
use crate::summary::{Excluded, JobSummary, Program, Summary, SummaryLabels};
use crate::work::{MessageSource, Sized, Work};
use std::collections::BTreeMap;
use std::sync::Arc;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Observer, Progress, Sim, Split, run_split};
use unrack_engine::network::Network;
use unrack_engine::run::{Ending, Run};
use unrack_engine::{Fabric, Largest};
use unrack_rack::{Protocol, Replay};
use unrack_units::{Bytes, Time};
use unrack_workload::size;

/// Everything that a run needs, except the fabric.
pub(crate) struct RunJob<'a> {
    pub network: &'a Network,
    pub ethernet: &'a Ethernet,
    pub seed: u64,
    /// Time at which the run ends, even if messages are unfinished.
    pub time_limit: Time,
    pub work: &'a Work,
    /// Progress hook. It is called during the run and at its end.
    pub progress: &'a mut dyn FnMut(Progress),
}

impl<'a> RunJob<'a> {
    /// Returns the surroundings for which the fabric is built.
    pub(crate) fn site(&self) -> FabricSite<'a> {
        FabricSite {
            network: self.network,
            ethernet: self.ethernet,
            seed: self.seed,
            heavy_tailed: self.work.is_heavy_tailed(),
        }
    }

    /// Runs the job on this thread.
    pub(crate) fn run_on(
        self,
        fabric: impl Fabric,
        protocol: Protocol,
        observer: impl Observer,
    ) -> Result<Finished, SetupError> {
        let asker = MessageSource::new(self.work, self.network, self.seed)?;
        self.check_sizes(&fabric, protocol)?;
        let sim = Sim::observed(fabric, asker, observer).until(self.time_limit);
        let (run, asker, _) = sim.run_with_progress(self.progress);
        check_time(&run, self.work)?;
        let program = match &asker {
            MessageSource::Replay(replay, Replay::ClosedLoop) if run.is_complete() => {
                Some(Program::new(replay))
            }
            _ => None,
        };
        let jobs = match (&asker, self.work) {
            (MessageSource::Jobs(jobs), Work::Jobs(_)) => JobSummary::all(jobs, run.ended),
            _ => BTreeMap::new(),
        };
        let (nodes, seed) = (self.network.nodes(), self.seed);
        Ok(Finished { run, fabric: protocol.name(), nodes, seed, program, jobs })
    }

    /// Runs the job on several threads. `part_of` is the part of each switch.
    pub(crate) fn run_parts<F: Split>(
        self,
        make: impl Fn() -> Result<F, SetupError>,
        protocol: Protocol,
        part_of: &Arc<[u32]>,
    ) -> Result<Finished, SetupError> {
        let fabric = make()?;
        if fabric.lookahead() == Time::ZERO {
            let rule = "takes a network with some latency between switches";
            return Err(SetupError::new("--threads", rule, part_of.len()));
        }
        let Some(calls) = MessageSource::calls(self.work, self.network, self.seed)? else {
            let rule = "takes messages that do not wait for others (no collective, no jobs; of a trace, workload.mode = \"open-loop\")";
            return Err(SetupError::new("--threads", rule, part_of.len()));
        };
        self.check_sizes(&fabric, protocol)?;
        let topology = &self.network.topology;
        let make = || make().expect("made once already");
        let switch_of = |node| topology.switch_of(node);
        let run = run_split(make, &calls, part_of, switch_of, self.time_limit, self.progress);
        check_time(&run, self.work)?;
        let (nodes, seed) = (self.network.nodes(), self.seed);
        Ok(Finished { run, fabric: protocol.name(), nodes, seed, program: None, jobs: BTreeMap::new() })
    }

    /// Checks that the fabric can carry the largest messages of the work.
    fn check_sizes(&self, fabric: &impl Fabric, protocol: Protocol) -> Result<(), SetupError> {
        let most = Bytes::new(size::MAX_BYTES);
        let (limit, why) = match fabric.largest().filter(|largest| largest.bytes < most) {
            Some(Largest { bytes, why }) => (bytes, format!(" for {protocol} ({why})")),
            None => (most, String::new()),
        };
        let all = self.work.largest(self.network.nodes())?;
        match all.into_iter().find(|sized| sized.bytes > limit.get()) {
            Some(Sized { key, bytes, of }) => {
                let rule = format!("has messages of at most {limit}{why}");
                Err(SetupError::new(key, rule, format!("{}{of}", Bytes::new(bytes))))
            }
            None => Ok(()),
        }
    }
}

/// Returns an error if the run reached the end of simulated time.
fn check_time(run: &Run, work: &Work) -> Result<(), SetupError> {
    let key = match work {
        Work::Synthetic(_) => "workload.load",
        Work::Listed(_) | Work::Replay(..) => "workload.file",
        Work::Lines(..) | Work::Collective(_) | Work::Jobs(_) => "workload",
    };
    match run.ending {
        Ending::OutOfTime => Err(SetupError::out_of_time(key, run.ended, run.finished())),
        Ending::Done | Ending::Idle | Ending::TimeLimit => Ok(()),
    }
}

/// Results of a finished run.
pub struct Finished {
    pub run: Run,
    pub fabric: &'static str,
    pub nodes: u32,
    pub seed: u64,
    /// Results of a closed-loop replay, for the program. `None` for other work, or if the replay did not finish.
    pub program: Option<Program>,
    /// Results of each job, by the name of the job; empty if there are no jobs.
    pub jobs: BTreeMap<String, JobSummary>,
}

impl Finished {
    /// Returns the figures of the run. Messages that `excluded` selects do not count.
    pub fn summary(&self, excluded: Excluded) -> Summary {
        let Finished { fabric, nodes, seed, .. } = *self;
        let labels = SummaryLabels { fabric, nodes, seed, excluded };
        Summary { program: self.program, jobs: self.jobs.clone(), ..Summary::new(&self.run, &labels) }
    }
}
