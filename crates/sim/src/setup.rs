//! A run from plain parts: any fabric, on any network that suits it, with any work.
//!
//! The engine is generic; here, in one place, the choice of fabric and work selects one of its compiled loops.

use crate::engine::{Observer, Progress, Sim, Split, Unobserved, run_split};
use crate::error::SetupError;
use crate::fabric::Fabric;
use crate::fabric::cxl::Cxl;
use crate::fabric::dctcp::Dctcp;
use crate::fabric::edm::{Edm, EdmConfig};
use crate::fabric::fastpass::Fastpass;
use crate::fabric::ideal::Ideal;
use crate::fabric::mptcp::Mptcp;
use crate::fabric::ndp::Ndp;
use crate::fabric::pfabric::Pfabric;
use crate::fabric::pfc_dcqcn::PfcDcqcn;
use crate::fabric::pfq::Pfq;
use crate::fabric::r2c2::R2c2;
use crate::fabric::receiver_driven::{Homa, Ird, Phost};
use crate::fabric::stream::Ethernet;
use crate::fabric::tcp::Tcp;
use crate::network::Network;
use crate::observe::Watch;
use crate::run::{Ending, Run};
use crate::summary::{Excluded, JobSummary, Labels, Program, Summary};
use std::collections::BTreeMap;
use std::sync::Arc;
use unrack_protocol::{cxl, dcqcn, dctcp, fastpass, homa, mptcp, ndp, pfabric, phost, r2c2, tcp};
use unrack_units::Time;
use unrack_workload::trace::Mode;
use unrack_workload::{
    CapturedTrace, CollectiveSpec, Jobs, JobsSpec, Listed, Message, Outbox, Replay, ReplaySpec, Source,
    Synthetic, SyntheticSpec, forecast, size,
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

/// A fabric and its parameters.
#[derive(Debug, Clone)]
pub enum FabricConfig {
    Ideal,
    Edm(EdmConfig),
    Cxl(cxl::Params),
    Dctcp(dctcp::Params),
    Tcp(tcp::Params),
    Mptcp(mptcp::Params),
    Pfabric(pfabric::Params),
    Ird,
    Homa(homa::Params),
    Phost(phost::Params),
    Fastpass(fastpass::Params),
    PfcDcqcn(dcqcn::Params),
    Ndp(ndp::Params),
    R2c2(r2c2::Params),
    Pfq,
}

const CANNOT_SPLIT: &str =
    "is 1 for ideal, edm, cxl, fastpass, ird, homa, mptcp, r2c2 and pfq (docs/decisions/0007-split-runs.md)";

const ONE_LINK: &str = "has one link to a node for fabrics other than ideal, dctcp, tcp and mptcp";

/// Work for the network. Cheap to clone: traces and lists are shared.
#[derive(Debug, Clone)]
pub enum Work {
    Synthetic(SyntheticSpec),
    Listed(Arc<Vec<(Time, Message)>>),
    Replay(Arc<CapturedTrace>, ReplaySpec),
    Collective(CollectiveSpec),
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
            // Pages or chunks, all of one size.
            Work::Replay(..) | Work::Collective(_) => false,
        }
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
        self.unobserved(work, &mut progress)
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
        self.with_watch(work, watch, &mut progress)
    }

    // The next two functions are not generic, so that the loops of all fabrics are compiled twice and not once per
    // caller.

    fn unobserved(&self, work: &Work, progress: &mut dyn FnMut(Progress)) -> Result<Finished, SetupError> {
        self.observed(work, Unobserved, progress)
    }

    fn with_watch(
        &self,
        work: &Work,
        watch: &mut Watch,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        self.observed(work, watch, progress)
    }

    /// Checks that the fabric can use several links of a node, and the insides of hosts, if there are any.
    pub(crate) fn check_links(&self) -> Result<(), SetupError> {
        use FabricConfig::{Dctcp, Ideal, Mptcp, Tcp};
        let uses_all = matches!(self.fabric, Ideal | Dctcp(_) | Tcp(_) | Mptcp(_));
        let knows_hosts = matches!(self.fabric, Dctcp(_) | Tcp(_) | Mptcp(_));
        if self.network.topology.hosts().is_some() && !knows_hosts {
            return Err(SetupError::new("host", "is for dctcp, tcp and mptcp", "another fabric's"));
        }
        match self.network.topology.attachments() > self.network.nodes() && !uses_all {
            true => Err(SetupError::new("network.topology.kind", ONE_LINK, "drack")),
            false => Ok(()),
        }
    }

    fn observed<O: Observer>(
        &self,
        work: &Work,
        observer: O,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        self.check_links()?;
        self.check_topology()?;
        match &self.fabric {
            FabricConfig::Ideal => self.run_on(Ideal::new(&self.network), work, observer, progress),
            FabricConfig::Edm(config) => {
                let config = config.for_tail(work.is_heavy_tailed());
                let edm = Edm::new(&self.network.as_star("edm")?, &config)?;
                let edm = edm.with_faults(&self.network.topology, &config)?.seeded(&config, self.seed);
                self.run_on(edm, work, observer, progress)
            }
            FabricConfig::Cxl(params) => {
                self.run_on(Cxl::new(&self.network, params)?, work, observer, progress)
            }
            FabricConfig::Dctcp(params) => {
                self.run_on(Dctcp::new(&self.network, &self.ethernet, params)?, work, observer, progress)
            }
            FabricConfig::Tcp(params) => {
                self.run_on(Tcp::new(&self.network, &self.ethernet, params)?, work, observer, progress)
            }
            FabricConfig::Mptcp(params) => {
                self.run_on(Mptcp::new(&self.network, &self.ethernet, params)?, work, observer, progress)
            }
            FabricConfig::Pfabric(params) => {
                self.run_on(Pfabric::new(&self.network, &self.ethernet, params)?, work, observer, progress)
            }
            FabricConfig::Fastpass(params) => {
                self.run_on(Fastpass::new(&self.network, &self.ethernet, params)?, work, observer, progress)
            }
            FabricConfig::PfcDcqcn(params) => {
                let fabric = PfcDcqcn::new(&self.network, &self.ethernet, params, self.seed)?;
                self.run_on(fabric, work, observer, progress)
            }
            FabricConfig::Ndp(params) => {
                self.run_on(Ndp::new(&self.network, &self.ethernet, params)?, work, observer, progress)
            }
            FabricConfig::R2c2(params) => {
                let fabric = R2c2::new(&self.network, &self.ethernet, params, self.seed)?;
                self.run_on(fabric, work, observer, progress)
            }
            FabricConfig::Pfq => {
                self.run_on(Pfq::new(&self.network, &self.ethernet, self.seed)?, work, observer, progress)
            }
            FabricConfig::Ird => {
                self.run_on(Ird::with(&self.network, &self.ethernet)?, work, observer, progress)
            }
            FabricConfig::Homa(params) => {
                self.run_on(Homa::with(&self.network, &self.ethernet, params)?, work, observer, progress)
            }
            FabricConfig::Phost(params) => {
                self.run_on(Phost::with(&self.network, &self.ethernet, params)?, work, observer, progress)
            }
        }
    }

    /// Checks that the network has switches, if the fabric needs them.
    fn check_topology(&self) -> Result<(), SetupError> {
        use FabricConfig::{Dctcp, Ideal, Pfq, R2c2, Tcp};
        let forwards = matches!(self.fabric, Ideal | Dctcp(_) | Pfq | R2c2(_) | Tcp(_));
        if self.network.topology.graph().is_some() && !forwards {
            let rule = "is one with switches but for ideal, tcp, dctcp, r2c2 and pfq";
            return Err(SetupError::new("network.topology.kind", rule, "one without"));
        }
        Ok(())
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
        let part_of = self.network.topology.parts(threads).ok_or_else(|| {
            let rule = "is at most the number of racks (of a fat tree: of pods) under a tier of switches";
            let racks = self.network.topology.racks().racks;
            SetupError::new("--threads", rule, format!("{threads} ({racks} racks)"))
        })?;
        if self.network.topology.hosts().is_some() {
            return Err(SetupError::new("--threads", "is 1 with [host]", threads));
        }
        let (network, ethernet) = (&self.network, &self.ethernet);
        match &self.fabric {
            FabricConfig::Dctcp(params) => {
                self.run_parts(|| Dctcp::new(network, ethernet, params), work, &part_of, &mut progress)
            }
            FabricConfig::Tcp(params) => {
                self.run_parts(|| Tcp::new(network, ethernet, params), work, &part_of, &mut progress)
            }
            FabricConfig::Pfabric(params) => {
                self.run_parts(|| Pfabric::new(network, ethernet, params), work, &part_of, &mut progress)
            }
            FabricConfig::PfcDcqcn(params) => {
                let make = || PfcDcqcn::new(network, ethernet, params, self.seed);
                self.run_parts(make, work, &part_of, &mut progress)
            }
            FabricConfig::Ndp(params) => {
                self.run_parts(|| Ndp::new(network, ethernet, params), work, &part_of, &mut progress)
            }
            FabricConfig::Phost(params) => {
                self.run_parts(|| Phost::with(network, ethernet, params), work, &part_of, &mut progress)
            }
            FabricConfig::Ideal
            | FabricConfig::Edm(_)
            | FabricConfig::Cxl(_)
            | FabricConfig::Fastpass(_)
            | FabricConfig::Mptcp(_)
            | FabricConfig::Ird
            | FabricConfig::R2c2(_)
            | FabricConfig::Pfq
            | FabricConfig::Homa(_) => Err(SetupError::new("--threads", CANNOT_SPLIT, threads)),
        }
    }

    /// Returns the messages that `work` submits, each with its time; `None` if some wait for others.
    ///
    /// # Errors
    /// If a parameter of the work does not fit the network.
    pub fn calls(&self, work: &Work) -> Result<Option<Vec<(Time, Message)>>, SetupError> {
        let waits = match work {
            Work::Replay(_, spec) => spec.mode == Mode::ClosedLoop,
            Work::Collective(_) | Work::Jobs(_) => true,
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
            Work::Replay(..) | Work::Collective(_) | Work::Jobs(_) => Time::ZERO,
        })
    }

    fn run_parts<F: Split>(
        &self,
        make: impl Fn() -> Result<F, SetupError>,
        work: &Work,
        part_of: &Arc<[u32]>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        let fabric = make()?;
        let name = fabric.name();
        if fabric.lookahead() == Time::ZERO {
            let rule = "takes a network with some latency between switches";
            return Err(SetupError::new("--threads", rule, part_of.len()));
        }
        let Some(calls) = self.calls(work)? else {
            let rule = "takes messages that do not wait for others (no collective, no jobs; of a trace, workload.mode = \"open-loop\")";
            return Err(SetupError::new("--threads", rule, part_of.len()));
        };
        let topology = &self.network.topology;
        let make = || make().expect("made once already");
        let run =
            run_split(make, &calls, part_of, |node| topology.switch_of(node), self.time_limit, progress);
        check_time(&run, work)?;
        let (nodes, seed) = (self.network.nodes(), self.seed);
        Ok(Finished { run, fabric: name, nodes, seed, program: None, jobs: BTreeMap::new() })
    }

    fn run_on<F: Fabric>(
        &self,
        fabric: F,
        work: &Work,
        observer: impl Observer,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        let name = fabric.name();
        let asker = self.asker(work)?;
        let sim = Sim::observed(fabric, asker, observer).until(self.time_limit);
        let (run, asker, _) = sim.run_with_progress(progress);
        check_time(&run, work)?;
        let program = match &asker {
            Asker::Replay(replay, Mode::ClosedLoop) if run.is_complete() => Some(Program::new(replay)),
            _ => None,
        };
        let jobs = match (&asker, work) {
            (Asker::Jobs(jobs), Work::Jobs(_)) => JobSummary::all(jobs, run.ended),
            _ => BTreeMap::new(),
        };
        Ok(Finished { run, fabric: name, nodes: self.network.nodes(), seed: self.seed, program, jobs })
    }

    fn asker(&self, work: &Work) -> Result<Asker, SetupError> {
        let racks = self.network.topology.racks();
        let rate = self.network.host_rate();
        let loads_take_time = self.network.topology.hosts().is_some();
        Ok(match work {
            Work::Synthetic(spec) => Asker::Synthetic(Synthetic::new(spec.clone(), racks, rate, self.seed)?),
            Work::Listed(messages) => Asker::Listed(Listed::new(messages.clone(), racks.nodes())?),
            Work::Collective(spec) => {
                let jobs = JobsSpec::collective(spec, racks.nodes())?;
                Asker::Jobs(Jobs::new(&jobs, racks, rate, loads_take_time)?)
            }
            Work::Jobs(spec) => Asker::Jobs(Jobs::new(spec, racks, rate, loads_take_time)?),
            Work::Replay(trace, spec) => Asker::Replay(Replay::new(trace.clone(), spec, racks)?, spec.mode),
        })
    }
}

/// Returns an error if simulated time ended before the run did.
fn check_time(run: &Run, work: &Work) -> Result<(), SetupError> {
    let key = match work {
        Work::Synthetic(_) => "workload.load",
        Work::Listed(_) | Work::Replay(..) => "workload.file",
        Work::Collective(_) | Work::Jobs(_) => "workload",
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
    Listed(Listed),
    Replay(Replay, Mode),
    Jobs(Jobs),
}

/// Passes a call on to the present source.
macro_rules! ask {
    ($asker:expr, $source:ident => $call:expr) => {
        match $asker {
            Asker::Synthetic($source) => $call,
            Asker::Listed($source) => $call,
            Asker::Replay($source, _) => $call,
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
