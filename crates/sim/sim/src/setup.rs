//! A run from plain parts: any fabric, on any network that suits it, with any work.
//!
//! The engine is generic; here, in one place, the choice of fabric and work selects one of its compiled loops.

use crate::fabric::stream::Ethernet;
use crate::observe::Watch;
use crate::registry::{AssumedBuffer, FabricConfig, Job, Parts, Registered, Site, known};
use crate::summary::{Excluded, JobSummary, Labels, Program, Summary};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use unrack_engine::Largest;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Observer, Progress, Sim, Split, run_split};
use unrack_engine::network::Network;
use unrack_engine::run::{Ending, Run};
use unrack_rack::{Blades, Collective, Replay, listed};
use unrack_units::{Bytes, Time};
use unrack_workload::{
    CapturedReplay, CapturedTrace, ComputedJob, JobsSpec, LineReplay, LineTrace, ListedMessages, Message,
    Outbox, ReplaySpec, RunningJobs, Source, Synthetic, SyntheticSpec, Traffic, forecast, size,
};

/// A network with its fabric.
#[derive(Debug, Clone)]
pub struct Setup {
    pub network: Network,
    /// Further parameters of packet networks.
    pub ethernet: Ethernet,
    pub fabric: FabricConfig,
    pub seed: u64,
    /// Time at which the run ends even if messages are unfinished. Default: never.
    pub time_limit: Time,
}

/// Work for the network. Cheap to clone: traces and lists are shared.
#[derive(Debug, Clone)]
pub enum Work {
    Synthetic(SyntheticSpec),
    Listed(Arc<Vec<(Time, Message)>>),
    Replay(Arc<CapturedTrace>, ReplaySpec),
    /// Lines that a program's misses ask for, on each compute blade.
    Lines(Arc<LineTrace>, Blades),
    Collective(Collective),
    Jobs(JobsSpec),
}

impl Work {
    /// Returns whether the tail of the message sizes is above an exponential's.
    pub fn is_heavy_tailed(&self) -> bool {
        match self {
            Work::Synthetic(spec) => spec.size.is_heavy_tailed(),
            Work::Listed(messages) => {
                let mean = |power| {
                    let sum: f64 =
                        messages.iter().map(|(_, message)| (message.bytes as f64).powi(power)).sum();
                    sum / messages.len() as f64
                };
                size::heavy_tailed(mean(1), mean(2))
            }
            Work::Jobs(spec) => {
                let (mut count, mut mean, mut square) = (0.0, 0.0, 0.0);
                for tasks in spec.jobs.iter().flat_map(|job| &job.rounds) {
                    for (_, _, bytes) in tasks.messages() {
                        count += 1.0;
                        mean += bytes as f64;
                        square += (bytes as f64).powi(2);
                    }
                }
                size::heavy_tailed(mean / count, square / count)
            }
            // Pages, lines or chunks, all of one size.
            Work::Replay(..) | Work::Lines(..) | Work::Collective(_) => false,
        }
    }
}

/// Size of a message of some work: its key, its bytes, and which message it is.
struct Sized {
    key: Cow<'static, str>,
    bytes: u64,
    of: String,
}

impl Work {
    /// Returns the largest messages and requests that it may submit among `nodes` nodes, one for each key.
    fn largest(&self, nodes: u32) -> Result<Vec<Sized>, SetupError> {
        let only = |key: &'static str, bytes| vec![Sized { key: key.into(), bytes, of: String::new() }];
        Ok(match self {
            Work::Synthetic(spec) => {
                let mut all = only("workload.size", spec.size.largest());
                if let Traffic::Memory(mix) = &spec.traffic {
                    all.extend(only("workload.request_size", mix.request.into()));
                    all.extend(only("workload.rmw_request_size", mix.rmw_request.into()));
                    all.extend(only("workload.rmw_size", mix.rmw_answer));
                    let disk =
                        mix.disk.iter().flat_map(|disk| only("workload.disk.size", disk.size.largest()));
                    all.extend(disk);
                }
                all
            }
            Work::Listed(messages) => {
                let sizes = messages.iter().zip(1..);
                let sizes = sizes.map(|((_, message), n)| (message.bytes.max(message.request.into()), n));
                // Of equals, the first.
                let largest = sizes.max_by_key(|(bytes, n)| (*bytes, std::cmp::Reverse(*n)));
                let sized = |(bytes, n): (u64, u64)| Sized {
                    key: "workload.file".into(),
                    bytes,
                    of: format!(" in message {n}"),
                };
                largest.map(sized).into_iter().collect()
            }
            Work::Replay(trace, _) => only("workload.file", trace.largest()),
            Work::Lines(..) => Vec::new(),
            Work::Collective(spec) => {
                let largest = JobsSpec::collective(spec, nodes)?.jobs.iter().map(ComputedJob::largest).max();
                only("workload.size", largest.unwrap_or(0))
            }
            Work::Jobs(spec) => {
                let sized = |(number, job): (usize, &ComputedJob)| Sized {
                    key: format!("workload.jobs.{number}").into(),
                    bytes: job.largest(),
                    of: format!(" in job `{}`", job.name),
                };
                spec.jobs.iter().enumerate().map(sized).collect()
            }
        })
    }
}

/// Results of a run that has ended.
pub struct Finished {
    pub run: Run,
    pub fabric: &'static str,
    pub nodes: u32,
    pub seed: u64,
    /// Results of a closed-loop replay for the program. `None` for other work, or if it did not come to its end.
    pub program: Option<Program>,
    /// Results of each job, by name, if there are jobs.
    pub jobs: BTreeMap<String, JobSummary>,
}

impl Finished {
    /// Returns the figures of the run.
    pub fn summary(&self, excluded: Excluded) -> Summary {
        let Finished { fabric, nodes, seed, .. } = *self;
        let labels = Labels { fabric, nodes, seed, excluded };
        Summary { program: self.program, jobs: self.jobs.clone(), ..Summary::new(&self.run, &labels) }
    }
}

impl Setup {
    /// Runs `work`, and calls `progress` some 20 times a second, and at the end.
    ///
    /// # Errors
    /// If a parameter of the fabric, the network or the work does not fit, or simulated time ends before the run
    /// does.
    pub fn run(&self, work: &Work, mut progress: impl FnMut(Progress)) -> Result<Finished, SetupError> {
        self.check()?;
        self.fabric.run(Job { setup: self, work, progress: &mut progress })
    }

    /// Runs `work` with an observer, in about twice the time.
    ///
    /// # Errors
    /// As [`Setup::run`].
    pub fn watched(
        &self,
        work: &Work,
        watch: &mut Watch,
        mut progress: impl FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        self.check()?;
        self.fabric.watched(Job { setup: self, work, progress: &mut progress }, watch)
    }

    /// Checks that the fabric can be run on this network.
    fn check(&self) -> Result<(), SetupError> {
        self.check_links()?;
        self.check_topology()
    }

    /// Checks that the fabric can use several links of a node, and the insides of hosts, if there are any.
    pub(crate) fn check_links(&self) -> Result<(), SetupError> {
        let profile = self.fabric.protocol().profile();
        let topology = &self.network.topology;
        if topology.hosts().is_some() && !profile.hosts {
            let rule = format!("is for {}", listed(&known().names(|it| it.hosts), "and"));
            return Err(SetupError::new("host", rule, "another fabric's"));
        }
        if topology.attachments() > self.network.nodes() && !profile.several_links {
            let others = listed(&known().names(|it| it.several_links), "and");
            let rule = format!("has one link to a node for fabrics other than {others}");
            return Err(SetupError::new("network.topology.kind", rule, "drack"));
        }
        Ok(())
    }

    /// Checks that the network has switches, if the fabric needs them.
    fn check_topology(&self) -> Result<(), SetupError> {
        let networks = self.fabric.protocol().profile().networks;
        if self.network.topology.graph().is_some() && !networks.have_direct() {
            let others = listed(&known().names(|it| it.networks.have_direct()), "and");
            let rule = format!("is one with switches but for {others}");
            return Err(SetupError::new("network.topology.kind", rule, "one without"));
        }
        Ok(())
    }

    /// Returns the buffer of a port that the protocol counts on, if it counts on one.
    pub(crate) fn assumed_buffer(&self) -> Option<AssumedBuffer> {
        let (network, ethernet) = (&self.network, &self.ethernet);
        self.fabric.assumed_buffer(&Site { network, ethernet, seed: self.seed, heavy_tailed: false })
    }

    /// Returns the surroundings in which the fabric is built.
    pub(crate) fn site(&self, work: &Work) -> Site<'_> {
        Site {
            network: &self.network,
            ethernet: &self.ethernet,
            seed: self.seed,
            heavy_tailed: work.is_heavy_tailed(),
        }
    }

    /// Runs `work` on several threads, with the same results as [`Setup::run`].
    ///
    /// # Errors
    /// If the fabric, the network or the work cannot be split like this, or as [`Setup::run`].
    pub fn split(
        &self,
        work: &Work,
        threads: u32,
        mut progress: impl FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        let topology = &self.network.topology;
        let part_of = topology.parts(threads).ok_or_else(|| {
            if topology.parts(1).is_none() {
                let rule = "is 1 on a topology without a tier of switches over its racks (star, drack, torack, torus, mesh, graph)";
                return SetupError::new("--threads", rule, threads);
            }
            let rule = "is at most the number of racks (of a fat tree: of pods) under a tier of switches";
            let racks = topology.racks().racks;
            SetupError::new("--threads", rule, format!("{threads} ({racks} racks)"))
        })?;
        if self.network.topology.hosts().is_some() {
            return Err(SetupError::new("--threads", "is 1 with [host]", threads));
        }
        let job = Job { setup: self, work, progress: &mut progress };
        self.fabric.split(Parts { job, part_of, protocol: self.fabric.protocol() })
    }

    /// Checks that the fabric carries the largest messages of `work`.
    fn check_sizes<F: Registered>(&self, fabric: &F, work: &Work) -> Result<(), SetupError> {
        let most = Bytes::new(size::MAX_BYTES);
        let (limit, why) = match fabric.largest().filter(|largest| largest.bytes < most) {
            Some(Largest { bytes, why }) => (bytes, format!(" for {} ({why})", F::PROTOCOL)),
            None => (most, String::new()),
        };
        let all = work.largest(self.network.nodes())?;
        match all.into_iter().find(|sized| sized.bytes > limit.get()) {
            Some(Sized { key, bytes, of }) => {
                let rule = format!("has messages of at most {limit}{why}");
                Err(SetupError::new(key, rule, format!("{}{of}", Bytes::new(bytes))))
            }
            None => Ok(()),
        }
    }

    /// Returns the messages that `work` submits, each with its time; `None` if some wait for others.
    ///
    /// # Errors
    /// If a parameter of the work does not fit the network.
    pub fn calls(&self, work: &Work) -> Result<Option<Vec<(Time, Message)>>, SetupError> {
        let waits = match work {
            Work::Replay(_, spec) => spec.mode == Replay::ClosedLoop,
            Work::Lines(..) | Work::Collective(_) | Work::Jobs(_) => true,
            Work::Synthetic(_) | Work::Listed(_) => false,
        };
        Ok(if waits { None } else { Some(forecast(self.asker(work)?)) })
    }

    /// Returns the approximate time from the first to the last submission; zero if only the run tells.
    ///
    /// # Errors
    /// If a parameter of the work does not fit the network.
    pub fn length_of(&self, work: &Work) -> Result<Time, SetupError> {
        Ok(match work {
            Work::Synthetic(spec) => {
                let racks = self.network.topology.racks();
                Synthetic::new(spec.clone(), racks, self.network.host_rate(), self.seed)?.mean_length()
            }
            Work::Listed(messages) => messages.last().map_or(Time::ZERO, |last| last.0),
            Work::Replay(..) | Work::Lines(..) | Work::Collective(_) | Work::Jobs(_) => Time::ZERO,
        })
    }

    pub(crate) fn run_parts<F: Registered + Split>(
        &self,
        make: impl Fn() -> Result<F, SetupError>,
        work: &Work,
        part_of: &Arc<[u32]>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        let fabric = make()?;
        if fabric.lookahead() == Time::ZERO {
            let rule = "takes a network with some latency between switches";
            return Err(SetupError::new("--threads", rule, part_of.len()));
        }
        let Some(calls) = self.calls(work)? else {
            let rule = "takes messages that do not wait for others (no collective, no jobs; of a trace, workload.mode = \"open-loop\")";
            return Err(SetupError::new("--threads", rule, part_of.len()));
        };
        self.check_sizes(&fabric, work)?;
        let topology = &self.network.topology;
        let make = || make().expect("made once already");
        let run =
            run_split(make, &calls, part_of, |node| topology.switch_of(node), self.time_limit, progress);
        check_time(&run, work)?;
        let (nodes, seed) = (self.network.nodes(), self.seed);
        Ok(Finished { run, fabric: F::PROTOCOL.name(), nodes, seed, program: None, jobs: BTreeMap::new() })
    }

    pub(crate) fn run_on<F: Registered>(
        &self,
        fabric: F,
        work: &Work,
        observer: impl Observer,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        let asker = self.asker(work)?;
        self.check_sizes(&fabric, work)?;
        let sim = Sim::observed(fabric, asker, observer).until(self.time_limit);
        let (run, asker, _) = sim.run_with_progress(progress);
        check_time(&run, work)?;
        let program = match &asker {
            Asker::Replay(replay, Replay::ClosedLoop) if run.is_complete() => Some(Program::new(replay)),
            _ => None,
        };
        let jobs = match (&asker, work) {
            (Asker::Jobs(jobs), Work::Jobs(_)) => JobSummary::all(jobs, run.ended),
            _ => BTreeMap::new(),
        };
        let (nodes, seed) = (self.network.nodes(), self.seed);
        Ok(Finished { run, fabric: F::PROTOCOL.name(), nodes, seed, program, jobs })
    }

    fn asker(&self, work: &Work) -> Result<Asker, SetupError> {
        let racks = self.network.topology.racks();
        let rate = self.network.host_rate();
        let loads_take_time = self.network.topology.hosts().is_some();
        Ok(match work {
            Work::Synthetic(spec) => Asker::Synthetic(Synthetic::new(spec.clone(), racks, rate, self.seed)?),
            Work::Listed(messages) => Asker::Listed(ListedMessages::new(messages.clone(), racks.nodes())?),
            Work::Collective(spec) => {
                let jobs = JobsSpec::collective(spec, racks.nodes())?;
                Asker::Jobs(RunningJobs::new(&jobs, racks, rate, loads_take_time)?)
            }
            Work::Jobs(spec) => Asker::Jobs(RunningJobs::new(spec, racks, rate, loads_take_time)?),
            Work::Replay(trace, spec) => {
                Asker::Replay(CapturedReplay::new(trace.clone(), spec, racks)?, spec.mode)
            }
            Work::Lines(trace, blades) => {
                Asker::Lines(LineReplay::new(trace.clone(), *blades, self.seed, racks)?)
            }
        })
    }
}

/// Returns an error if simulated time ended before the run did.
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

/// Source of the messages of a run: one type, so that the loop of a fabric is compiled once.
#[allow(clippy::large_enum_variant, reason = "there is one of it in a run")]
enum Asker {
    Synthetic(Synthetic),
    Listed(ListedMessages),
    Replay(CapturedReplay, Replay),
    Lines(LineReplay),
    Jobs(RunningJobs),
}

/// Passes a call on to the present source.
macro_rules! ask {
    ($asker:expr, $source:ident => $call:expr) => {
        match $asker {
            Asker::Synthetic($source) => $call,
            Asker::Listed($source) => $call,
            Asker::Replay($source, _) => $call,
            Asker::Lines($source) => $call,
            Asker::Jobs($source) => $call,
        }
    };
}

impl Source for Asker {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        ask!(self, source => source.start(out));
    }
    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O) {
        ask!(self, source => source.wake(actor, now, out));
    }
    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O) {
        ask!(self, source => source.completed(message, now, out));
    }
    fn total(&self) -> Option<u64> {
        ask!(self, source => source.total())
    }
    fn is_exhausted(&self) -> bool {
        ask!(self, source => source.is_exhausted())
    }
}
