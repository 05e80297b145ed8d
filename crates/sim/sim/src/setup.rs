//! A run from separate parts: any fabric, on any network that suits the fabric, with any work.
//!
//! The engine is generic. The choice of fabric and work selects one of its compiled loops, and this happens only here.

use crate::config::FabricConfig;
use crate::contract::{AssumedBuffer, SplitRun};
use crate::job::{Finished, RunJob};
use crate::observe::Views;
use crate::registry::known;
use crate::site::{Ethernet, FabricSite};
use crate::work::{MessageSource, Work};
use unrack_engine::error::SetupError;
use unrack_engine::events::Progress;
use unrack_engine::network::Network;
use unrack_rack::listed;
use unrack_units::Time;
use unrack_workload::{Message, Synthetic};

/// A network with its fabric.
#[derive(Debug, Clone)]
pub struct Setup {
    pub network: Network,
    /// Further parameters of packet networks.
    pub ethernet: Ethernet,
    pub fabric: FabricConfig,
    pub seed: u64,
    /// Time at which the run ends, even if messages are unfinished. Default: never.
    pub time_limit: Time,
}

impl Setup {
    /// Runs `work`. Calls `progress` about 20 times a second, and at the end.
    ///
    /// # Errors
    /// If a parameter of the fabric, the network or the work is invalid, or if simulated time ends before the run does.
    pub fn run(&self, work: &Work, mut progress: impl FnMut(Progress)) -> Result<Finished, SetupError> {
        self.check()?;
        self.fabric.run(self.job(work, &mut progress))
    }

    /// Runs `work` with an observer, which takes about twice the time.
    ///
    /// # Errors
    /// The same errors as [`Setup::run`].
    pub fn watched(
        &self,
        work: &Work,
        watch: &mut Views,
        mut progress: impl FnMut(Progress),
    ) -> Result<Finished, SetupError> {
        self.check()?;
        self.fabric.watched(self.job(work, &mut progress), watch)
    }

    fn job<'a>(&'a self, work: &'a Work, progress: &'a mut dyn FnMut(Progress)) -> RunJob<'a> {
        let Setup { ref network, ref ethernet, seed, time_limit, .. } = *self;
        RunJob { network, ethernet, seed, time_limit, work, progress }
    }

    /// Checks that the fabric can be run on this network.
    fn check(&self) -> Result<(), SetupError> {
        self.check_links()?;
        self.check_topology()
    }

    /// Checks that the fabric supports several links per node and the inside of hosts, if the network has them.
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

    /// Returns the buffer per port that the protocol expects; `None` if any buffer is sufficient.
    pub(crate) fn assumed_buffer(&self) -> Option<AssumedBuffer> {
        let (network, ethernet) = (&self.network, &self.ethernet);
        self.fabric.assumed_buffer(&FabricSite { network, ethernet, seed: self.seed, heavy_tailed: false })
    }

    /// Runs `work` on several threads, with the same results as [`Setup::run`].
    ///
    /// # Errors
    /// If the fabric, the network or the work cannot be split over this number of threads; also the errors of
    /// [`Setup::run`].
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
        let protocol = self.fabric.protocol();
        if !protocol.profile().splits {
            let whole = listed(&known().names(|it| !it.splits), "and");
            let rule = format!("is 1 for {whole} (docs/decisions/0007-split-runs.md)");
            let threads = part_of.iter().max().map_or(1, |last| last + 1);
            return Err(SetupError::new("--threads", rule, format!("{threads} with {protocol}")));
        }
        self.fabric.split(SplitRun { job: self.job(work, &mut progress), part_of })
    }

    /// Returns the messages that `work` submits, each with its time; `None` if some messages wait for others.
    ///
    /// # Errors
    /// If a parameter of the work does not fit the network.
    pub fn calls(&self, work: &Work) -> Result<Option<Vec<(Time, Message)>>, SetupError> {
        MessageSource::calls(work, &self.network, self.seed)
    }

    /// Returns the approximate time from the first to the last submission; zero if it is known only after the run.
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
}
